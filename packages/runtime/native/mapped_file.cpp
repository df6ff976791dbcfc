#include "mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

std::shared_ptr<Plan> map_plan(const int file, const FileRange range) {
    struct stat status{};
    TRT_RUNTIME_CHECK(PlanError, fstat(file, &status) == 0,
                      "expected an open file, found: ", std::strerror(errno), kMend);
    TRT_RUNTIME_CHECK(PlanError, S_ISREG(status.st_mode), "expected a regular file, found ",
                      kind_of(status.st_mode), kMend);
    const auto whole = static_cast<std::size_t>(status.st_size);
    TRT_RUNTIME_CHECK(PlanError, whole > 0, "expected a plan, found an empty file", kMend);
    TRT_RUNTIME_CHECK(PlanError,
                      range.offset < whole && range.size.value_or(1) > 0 &&
                          range.size.value_or(1) <= whole - range.offset,
                      "expected a plan of ", range.size.value_or(1), " bytes or more at byte ",
                      range.offset, ", found a file of ", whole, " bytes", kMend);
    const std::size_t size = range.size.value_or(whole - range.offset);
    // A mapping begins with a page.
    const std::size_t before = range.offset % static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t mapped = before + size;
    // Writable, though for this process alone: who writes through a tensor over the plan, which
    // torch cannot forbid, damages a copy of that page and is told when the engine is run. A
    // read-only mapping would end the process instead. No memory is reserved for what nobody should
    // write.
    void* const address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                               file, static_cast<off_t>(range.offset - before));
    TRT_RUNTIME_CHECK(PlanError, address != MAP_FAILED,
                      "expected a file that can be mapped, found: ", std::strerror(errno), kMend);
    std::shared_ptr<const void> owner(address,
                                      [mapped](void* const start) { munmap(start, mapped); });
    return std::make_shared<Plan>(static_cast<const std::byte*>(address) + before, size,
                                  std::move(owner));
}

}  // namespace trt_runtime
