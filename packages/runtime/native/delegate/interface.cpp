#include "interface.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "../errors.h"
#include "../interpreter_exit.h"
#include "instance.h"
#include "last_error.h"

struct TrtDelegate : trt_runtime::DelegateInstance {
    using DelegateInstance::DelegateInstance;
};

namespace {

using trt_runtime::BlobError, trt_runtime::BusyError, trt_runtime::ExecutorUnavailableError,
    trt_runtime::InputError, trt_runtime::OwnedBytes, trt_runtime::PlanError,
    trt_runtime::RecordError;

thread_local trt_runtime::DelegateError last_error;

// Keeps a failure for Python and writes it for ExecuTorch's log.
void report(const TrtDelegateMessage& message, const char* const kind, const char* const text) {
    last_error = {kind, text};
    if (message.capacity == 0) return;
    const std::size_t length = std::min(last_error.message.size(), message.capacity - 1);
    std::memcpy(message.text, last_error.message.data(), length);
    message.text[length] = '\0';
}

// Does `work` and turns what it throws into a status: no exception may cross the C interface.
template <typename Work>
TrtDelegateStatus guarded(const TrtDelegateStatus otherwise, const TrtDelegateMessage& message,
                          const Work& work) noexcept {
    const auto failed = [&](const char* const kind, const char* const text,
                            const TrtDelegateStatus status) {
        report(message, kind, text);
        return status;
    };
    try {
        work();
        return TRT_DELEGATE_OK;
    } catch (const abi::__forced_unwind&) {
        trt_runtime::stay_until_exit();
    } catch (const BusyError& error) {
        return failed("ExecutionError", error.what_without_backtrace(), TRT_DELEGATE_BUSY);
    } catch (const InputError& error) {
        return failed("InputError", error.what_without_backtrace(), TRT_DELEGATE_INVALID_ARGUMENT);
    } catch (const BlobError& error) {
        return failed("ProgramError", error.what(), otherwise);
    } catch (const PlanError& error) {
        return failed("PlanError", error.what_without_backtrace(), otherwise);
    } catch (const RecordError& error) {
        return failed("RecordError", error.what_without_backtrace(), otherwise);
    } catch (const ExecutorUnavailableError& error) {
        return failed("ExecutorUnavailableError", error.what_without_backtrace(), otherwise);
    } catch (const c10::Error& error) {
        return failed("ExecutionError", error.what_without_backtrace(), otherwise);
    } catch (const std::exception& error) {
        return failed("ExecutionError", error.what(), otherwise);
    } catch (...) {
        return failed("ExecutionError", "an exception without a message", otherwise);
    }
}

OwnedBytes owned(const void* const data, const std::size_t size, const TrtDelegateOwner& owner) {
    return {std::span(static_cast<const std::byte*>(data), size),
            std::shared_ptr<const void>(owner.context,
                                        [release = owner.release](const void* const context) {
                                            release(const_cast<void*>(context));
                                        })};
}

}  // namespace

TrtDelegateStatus trt_delegate_open(const void* const payload, const size_t size,
                                    const TrtDelegateOwner owner, const TrtDelegateData data,
                                    TrtDelegate** const delegate,
                                    const TrtDelegateMessage message) {
    return guarded(TRT_DELEGATE_INCOMPATIBLE, message, [&] {
        const OwnedBytes bytes = owned(payload, size, owner);
        const auto find = [&](const std::string& key) -> std::optional<OwnedBytes> {
            TrtDelegateBuffer found{};
            if (data.find(data.context, key.c_str(), &found) != 0) return std::nullopt;
            return owned(found.data, found.size, found.owner);
        };
        *delegate = std::make_unique<TrtDelegate>(bytes, find).release();
    });
}

TrtDelegateStatus trt_delegate_execute(TrtDelegate* const delegate,
                                       const TrtDelegateTensor* const arguments, const size_t count,
                                       const TrtDelegateResizer resizer,
                                       const TrtDelegateMessage message) {
    return guarded(TRT_DELEGATE_FAILED, message,
                   [&] { delegate->execute(std::span(arguments, count), resizer); });
}

void trt_delegate_refuse(const char* const message) { report({}, "InputError", message); }

void trt_delegate_close(TrtDelegate* const delegate) {
    const std::unique_ptr<TrtDelegate> owned(delegate);
}

namespace trt_runtime {

DelegateError take_delegate_error() { return std::exchange(last_error, {}); }

}  // namespace trt_runtime
