// The delegate as ExecuTorch sees it. Only ExecuTorch's headers here, and the C interface to the
// rest.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <streambuf>
#include <utility>
#include <vector>

#include "interface.h"

namespace {

namespace et = executorch::runtime;
using executorch::aten::SizesType;
using executorch::aten::Tensor;

constexpr const char* kReferenceBackend = "TrtRuntimeBackend";  // plans in named data
constexpr const char* kInlineBackend = "TensorRTBackend";       // plans in payloads
constexpr std::size_t kMessageSize = 2048;

et::Error to_error(const TrtDelegateStatus status) {
    switch (status) {
        case TRT_DELEGATE_OK:
            return et::Error::Ok;
        case TRT_DELEGATE_INCOMPATIBLE:
            return et::Error::DelegateInvalidCompatibility;
        case TRT_DELEGATE_INVALID_ARGUMENT:
            return et::Error::InvalidArgument;
        case TRT_DELEGATE_BUSY:
            return et::Error::InvalidState;
        case TRT_DELEGATE_FAILED:
            break;
    }
    return et::Error::Internal;
}

// Whether the elements lie in the order of the sizes. A dimension of size 1 may be anywhere:
// exported programs put those of `nonzero`, for one, first.
bool is_contiguous(const Tensor& tensor) {
    int last = -1;
    for (const auto dim : tensor.dim_order()) {
        if (tensor.size(dim) == 1) continue;
        if (dim < last) return false;
        last = dim;
    }
    return true;
}

// Refuses an argument that the C interface has no form for.
et::Error refuse(const std::size_t argument, const char* const expected, const char* const found) {
    std::array<char, kMessageSize> message{};
    std::snprintf(message.data(), message.size(), "delegate, argument %zu: expected %s, found %s",
                  argument, expected, found);
    trt_delegate_refuse(message.data());
    ET_LOG(Error, "trt-runtime: %s", message.data());
    return et::Error::InvalidArgument;
}

// Hands a buffer of ExecuTorch's over: ours from here on, and unmapped as soon as nothing reads it
// any more.
TrtDelegateOwner own(et::FreeableBuffer&& buffer) {
    auto owned = std::make_unique<et::FreeableBuffer>(std::move(buffer));
    return {[](void* const context) {
                const std::unique_ptr<et::FreeableBuffer> freed(
                    static_cast<et::FreeableBuffer*>(context));
            },
            owned.release()};
}

int find_data(void* const context, const char* const key, TrtDelegateBuffer* const found) {
    const auto* const map = static_cast<const et::NamedDataMap*>(context);
    if (map == nullptr) return 1;
    et::Result<et::FreeableBuffer> data = map->get_data(key);
    if (!data.ok()) return 1;
    found->data = data->data();
    found->size = data->size();
    found->owner = own(std::move(*data));
    return 0;
}

int resize(void* const context, const std::size_t argument, const std::int32_t* const sizes,
           void** const data) {
    static_assert(std::is_same_v<SizesType, std::int32_t>);
    const auto& arguments = *static_cast<const et::Span<et::EValue*>*>(context);
    Tensor tensor = arguments[argument]->toTensor();
    if (et::resize_tensor(tensor, {sizes, static_cast<std::size_t>(tensor.dim())}) !=
        et::Error::Ok) {
        return 1;
    }
    *data = tensor.mutable_data_ptr();
    return 0;
}

// Both delegates: a payload says by its magic which of the two forms it has.
class Backend final : public et::BackendInterface {
  public:
    // Always, so that a program without what it needs gets the message of `init`.
    bool is_available() const override { return true; }

    et::Result<et::DelegateHandle*> init(
        et::BackendInitContext& context, et::FreeableBuffer* const processed,
        et::ArrayRef<et::CompileSpec> /*compile_specs*/) const override {
        const void* const payload = processed->data();
        const std::size_t size = processed->size();
        const auto* const named_data = context.get_named_data_map();
        const TrtDelegateData data{&find_data, const_cast<et::NamedDataMap*>(named_data)};
        std::array<char, kMessageSize> message{};
        TrtDelegate* delegate = nullptr;
        const TrtDelegateStatus status =
            trt_delegate_open(payload, size, own(std::move(*processed)), data, &delegate,
                              {message.data(), message.size()});
        if (status != TRT_DELEGATE_OK) {
            ET_LOG(Error, "trt-runtime: %s", message.data());
            return to_error(status);
        }
        return delegate;
    }

    et::Error execute(et::BackendExecutionContext& /*context*/, et::DelegateHandle* const handle,
                      et::Span<et::EValue*> arguments) const override {
        std::vector<TrtDelegateTensor> tensors;
        tensors.reserve(arguments.size());
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            if (!arguments[i]->isTensor()) return refuse(i, "a tensor", "another kind of value");
            const Tensor& tensor = arguments[i]->toTensor();
            if (!is_contiguous(tensor)) {
                return refuse(
                    i, "contiguous memory",
                    "another order of dimensions; put .contiguous() before the engine and "
                    "lower it again");
            }
            tensors.push_back({tensor.mutable_data_ptr(), tensor.sizes().data(),
                               static_cast<std::int32_t>(tensor.dim()),
                               static_cast<std::int32_t>(tensor.scalar_type())});
        }
        std::array<char, kMessageSize> message;
        message[0] = '\0';
        const TrtDelegateStatus status =
            trt_delegate_execute(static_cast<TrtDelegate*>(handle), tensors.data(), tensors.size(),
                                 {&resize, &arguments}, {message.data(), message.size()});
        if (status != TRT_DELEGATE_OK) ET_LOG(Error, "trt-runtime: %s", message.data());
        return to_error(status);
    }

    void destroy(et::DelegateHandle* const handle) const override {
        trt_delegate_close(static_cast<TrtDelegate*>(handle));
    }
};

// ExecuTorch's Python bindings swap the buffer of std::cerr for the time of a call, and log through
// it: the buffer writes to sys.stderr, in Python, which may give the GIL away. Calls of other
// threads then put the buffers back in the wrong order, and the next message goes to one that is
// gone. So its messages go to the process's own stderr, in the same words (log.h).
void log_without_python(et_timestamp_t /*timestamp*/, et_pal_log_level_t /*level*/,
                        const char* const file, const char* /*function*/, const std::size_t line,
                        const char* const message, std::size_t /*length*/) {
    trt_delegate_log(file, line, message);
}

// Registers a backend under a name. 0: it is registered, now or before; 1: another library has
// registered one of the same name; 2: ExecuTorch refused it (its registry is full).
int register_as(const char* const name, Backend& backend) {
    const et::BackendInterface* const known = et::get_backend_class(name);
    if (known == &backend) return 0;
    if (known != nullptr) return 1;
    return et::register_backend({name, &backend}) == et::Error::Ok ? 0 : 2;
}

}  // namespace

// Registers the delegate in the ExecuTorch of this process, under the one or the other name, and
// says what `register_as` does.
extern "C" TRT_DELEGATE_API int trt_delegate_register(const int is_inline) {
    // Never destroyed: ExecuTorch's registry refers to it, and threads that are still in a call
    // when the process exits, or objects that outlive static ones, go on using it.
    static auto* const backend = new Backend;
    return register_as(is_inline != 0 ? kInlineBackend : kReferenceBackend, *backend);
}

// Replaces the log of the ExecuTorch of this process by `log_without_python`. The GIL is held.
extern "C" TRT_DELEGATE_API void trt_delegate_replace_log() {
    // ExecuTorch would remark there that its bindings had a log of their own.
    std::streambuf* const buffer = std::cerr.rdbuf(nullptr);
    et::register_pal(et::PalImpl::create(&log_without_python, __FILE__));
    std::cerr.rdbuf(buffer);
}
