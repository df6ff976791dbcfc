#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

// What must hold of everything that is read. Not assert(): it may be compiled away.
inline void require(const bool condition) {
    if (!condition) std::abort();
}

// Messages go to terminals and logs: text on one line, and not as long as the file.
inline void require_message(const std::string_view message, const std::size_t longest) {
    require(!message.empty() && message.size() <= longest);
    require(std::all_of(message.begin(), message.end(),
                        [](const char c) { return c >= ' ' && c <= '~'; }));
}
