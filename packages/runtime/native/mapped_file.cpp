#include "mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "errors.h"

namespace trt_runtime {
namespace {

constexpr std::string_view kMend = "; name a file that holds a plan, or pass the plan's bytes";

std::string_view kind_of(const mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFDIR:
            return "a folder";
        case S_IFIFO:
            return "a pipe";
        case S_IFSOCK:
            return "a socket";
        default:
            return "a device";
    }
}

}  // namespace

std::shared_ptr<Plan> map_plan(const int file) {
    struct stat status{};
    TRT_RUNTIME_CHECK(PlanError, fstat(file, &status) == 0,
                      "expected an open file, found: ", std::strerror(errno), kMend);
    TRT_RUNTIME_CHECK(PlanError, S_ISREG(status.st_mode), "expected a regular file, found ",
                      kind_of(status.st_mode), kMend);
    TRT_RUNTIME_CHECK(PlanError, status.st_size > 0, "expected a plan, found an empty file", kMend);
    const auto size = static_cast<std::size_t>(status.st_size);
    // Writable, though for this process alone: who writes through a tensor over the plan, which
    // torch cannot forbid, damages a copy of that page and is told when the engine is run. A
    // read-only mapping would end the process instead. No memory is reserved for what nobody should
    // write.
    void* const address =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    TRT_RUNTIME_CHECK(PlanError, address != MAP_FAILED,
                      "expected a file that can be mapped, found: ", std::strerror(errno), kMend);
    std::shared_ptr<const void> owner(address,
                                      [size](void* const mapped) { munmap(mapped, size); });
    return std::make_shared<Plan>(static_cast<const std::byte*>(address), size, std::move(owner));
}

}  // namespace trt_runtime
