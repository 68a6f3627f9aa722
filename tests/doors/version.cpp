#include <gneiss/version.hpp>

#include <doctest/doctest.h>

#include <string>

namespace test_doors_version {

TEST_CASE("the text and the number of the version have its three parts") {
    const std::string major = std::to_string(GNEISS_VERSION_MAJOR), minor = std::to_string(GNEISS_VERSION_MINOR);
    CHECK(GNEISS_VERSION_STRING == major + "." + minor + "." + std::to_string(GNEISS_VERSION_PATCH));
    CHECK(GNEISS_VERSION / 10000 == GNEISS_VERSION_MAJOR);
    CHECK(GNEISS_VERSION / 100 % 100 == GNEISS_VERSION_MINOR);
    CHECK(GNEISS_VERSION % 100 == GNEISS_VERSION_PATCH);
}

} // namespace test_doors_version
