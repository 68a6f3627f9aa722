#include <gneiss/core/checksum.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/gneiss.hpp>

#include <string_view>

#ifdef PACKAGE_VERSION // what the package says that it is
static_assert(std::string_view(GNEISS_VERSION_STRING) == PACKAGE_VERSION);
#endif

int main() {
    const gneiss::tbb_executor executor(2);
    const auto sum =
        gneiss::parallel_reduce(executor, 1000, 10, std::size_t{0}, [](std::size_t begin, std::size_t end) {
            std::size_t partial = 0;
            for (std::size_t i = begin; i < end; ++i) partial += i;
            return partial;
        });
    return sum == 499500 && gneiss::checksum("gneiss") == gneiss::checksum("gneiss") ? 0 : 1;
}
