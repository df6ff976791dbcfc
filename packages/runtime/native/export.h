#pragma once

// The library is compiled with hidden visibility; what `_native` links against is marked with this.
#define TRT_RUNTIME_API __attribute__((visibility("default")))
