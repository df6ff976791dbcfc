#include "instance.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "../errors.h"
#include "../stats.h"

namespace trt_runtime {
namespace {

// Enough for the buckets of a program with dynamic shapes; each one holds a few hundred bytes.
constexpr std::size_t kMaxBindings = 8;

// What a key holds of an output: its address first.
constexpr std::size_t kOutputKey = 2;

// Marks an instance as in use. Not a mutex: while the engine runs, the thread may give the GIL
// away, and whoever holds it would wait here for a lock that is only returned with the GIL.
class BusyGuard {
  public:
    explicit BusyGuard(std::atomic<Use>& use) : use_(use) {
        Use found = Use::kFree;
        if (use_.compare_exchange_strong(found, Use::kBusy)) return;
        // ExecuTorch has put the inputs of this call where the other one reads its own.
        found = Use::kBusy;
        use_.compare_exchange_strong(found, Use::kDisturbed);
        refuse();
    }
    BusyGuard(const BusyGuard&) = delete;
    BusyGuard& operator=(const BusyGuard&) = delete;
    ~BusyGuard() { use_.store(Use::kFree); }

    // Refuses what this call has computed if another one came in the meantime.
    void finish() const {
        if (use_.load() == Use::kDisturbed) refuse();
    }

  private:
    [[noreturn]] static void refuse() {
        TRT_RUNTIME_CHECK(BusyError, false,
                          "delegate: expected one call at a time, found a second one from another "
                          "thread, and neither has a result; load the method once for each thread "
                          "(its engine is shared)");
    }

    std::atomic<Use>& use_;
};

RawTensor raw(const TrtDelegateTensor& tensor) {
    return {tensor.data, tensor.dtype, {tensor.sizes, tensor.sizes + tensor.rank}};
}

// Gives an output its sizes; returns where its data is then.
void* resize(const TrtDelegateResizer& resizer, const std::size_t argument,
             const RawEngine::Sizes& sizes) {
    std::vector<std::int32_t> narrow(sizes.size());
    std::transform(sizes.begin(), sizes.end(), narrow.begin(), [&](const std::int64_t size) {
        TRT_RUNTIME_CHECK(InputError, size <= std::numeric_limits<std::int32_t>::max(),
                          "delegate, argument ", argument,
                          ": expected sizes below 2**31, which ExecuTorch can hold, found ", size);
        return static_cast<std::int32_t>(size);
    });
    void* data = nullptr;
    TRT_RUNTIME_CHECK(InputError,
                      resizer.resize(resizer.context, argument, narrow.data(), &data) == 0,
                      "delegate, argument ", argument,
                      ": expected room for an output of the sizes [", c10::Join(", ", sizes),
                      "], found less; the program was lowered for smaller sizes: lower it again");
    return data;
}

bool has_sizes(const TrtDelegateTensor& tensor, const RawEngine::Sizes& sizes) {
    return std::equal(sizes.begin(), sizes.end(), tensor.sizes, tensor.sizes + tensor.rank);
}

std::shared_ptr<const Plan> find_plan(const PlanReference& reference, const FindPlan& find) {
    const std::optional<OwnedBytes> found = find(reference.key());
    if (!found) {
        throw BlobError("delegate: expected the plan '" + reference.key() +
                        "' in the program's named data, found none; if it is in a data file "
                        "(.ptd), give that too: trt_runtime.load(program, data=file)");
    }
    const std::size_t size = found->bytes.size();
    TRT_RUNTIME_CHECK(PlanError, size == reference.plan_size, "delegate: expected a plan of ",
                      reference.plan_size, " bytes in the program's named data, found ", size,
                      "; the file is damaged or the data file is another program's");
    return std::make_shared<const Plan>(found->bytes.data(), size, found->owner);
}

}  // namespace

DelegateInstance::DelegateInstance(const OwnedBytes& payload, const FindPlan& find) {
    const OpenRawEngine open = find_raw_engines();
    TRT_RUNTIME_CHECK(ExecutorUnavailableError, open != nullptr,
                      "delegate: expected the executors of trt_runtime, found none; import "
                      "trt_runtime in this process");
    if (is_reference(payload.bytes)) {
        const PlanReference reference = parse_reference(payload.bytes);
        inputs_ = reference.inputs.size();
        outputs_ = reference.outputs.size();
        engine_ = open(reference, find_plan(reference, find));
    } else {
        const Blob blob = parse_blob(payload.bytes);
        inputs_ = blob.inputs();
        outputs_ = blob.bindings.size() - inputs_;
        engine_ = open(
            blob, std::make_shared<const Plan>(blob.plan.data(), blob.plan.size(), payload.owner));
    }
}

void DelegateInstance::execute(const std::span<const TrtDelegateTensor> arguments,
                               const TrtDelegateResizer& resizer) {
    const BusyGuard guard(use_);
    TRT_RUNTIME_CHECK(InputError, arguments.size() == inputs_ + outputs_, "delegate: expected ",
                      inputs_, " inputs and ", outputs_, " outputs, found ", arguments.size(),
                      " arguments; the program does not fit its engine: lower it again");
    read_key(arguments);
    const Binding* binding = find_binding();
    bool moved = false;
    if (binding != nullptr) {
        for (std::size_t i = 0; i < outputs_; ++i) {
            const TrtDelegateTensor& output = arguments[inputs_ + i];
            if (has_sizes(output, binding->output_sizes[i])) continue;
            moved |= resize(resizer, inputs_ + i, binding->output_sizes[i]) != output.data;
        }
    }
    if (binding == nullptr || moved) {
        Binding made = bind(arguments, resizer);
        if (bindings_.size() == kMaxBindings) bindings_.pop_back();
        binding = &*bindings_.insert(bindings_.begin(), std::move(made));
    }
    binding->engine->run();
    guard.finish();
}

// Everything that a binding depends on: of an input all, of an output all but the sizes, which
// follow from the inputs.
void DelegateInstance::read_key(const std::span<const TrtDelegateTensor> arguments) {
    key_.clear();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const TrtDelegateTensor& tensor = arguments[i];
        key_.push_back(reinterpret_cast<std::intptr_t>(tensor.data));
        key_.push_back(static_cast<std::int64_t>(tensor.dtype) << 32 | tensor.rank);
        if (i < inputs_) key_.insert(key_.end(), tensor.sizes, tensor.sizes + tensor.rank);
    }
}

const DelegateInstance::Binding* DelegateInstance::find_binding() {
    const auto found = std::find_if(bindings_.begin(), bindings_.end(),
                                    [&](const Binding& binding) { return binding.key == key_; });
    if (found == bindings_.end()) return nullptr;
    std::rotate(bindings_.begin(), found, found + 1);
    return &bindings_.front();
}

DelegateInstance::Binding DelegateInstance::bind(const std::span<const TrtDelegateTensor> arguments,
                                                 const TrtDelegateResizer& resizer) {
    std::vector<RawTensor> tensors(arguments.size());
    std::transform(arguments.begin(), arguments.end(), tensors.begin(), raw);
    const std::span all(tensors);
    Binding made{
        .key = key_, .output_sizes = engine_->output_sizes(all.first(inputs_)), .engine = {}};
    for (std::size_t i = 0; i < outputs_; ++i) {
        RawTensor& output = tensors[inputs_ + i];
        const RawEngine::Sizes& sizes = made.output_sizes[i];
        TRT_RUNTIME_CHECK(InputError, output.sizes.size() == sizes.size(), "delegate, output ", i,
                          ": expected rank ", sizes.size(), ", found ", output.sizes.size(),
                          "; the program does not fit its engine: lower it again");
        output.data = resize(resizer, inputs_ + i, sizes);
        output.sizes = sizes;
        // Where it is now: an output that moved left memory that may be an output's again.
        made.key[made.key.size() - kOutputKey * (outputs_ - i)] =
            reinterpret_cast<std::intptr_t>(output.data);
    }
    made.engine = engine_->bind(all.first(inputs_), all.subspan(inputs_));
    count(Counter::kDelegateBindings);
    return made;
}

}  // namespace trt_runtime
