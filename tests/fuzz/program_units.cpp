#include "fuzz/target.hpp"

#include <cmath>

#include "kit/cli/exit_codes.hpp"
#include "kit/cli/units.hpp"

namespace test_fuzz_program_units {

using namespace gneiss;

/// Checks that an accepted value survives the round trip through its text.
template <class Parse>
static void round_trip(std::string_view text, Parse parse) {
    decltype(parse(text)) value{};
    if (!fuzz::accepted<programs::usage_error>([&] { value = parse(text); })) return;
    fuzz::property(parse(programs::to_flag(value)) == value, "'" + programs::to_flag(value) + "' is read as written");
}

GNEISS_FUZZ_TARGET("program_units", bytes) {
    const std::string_view text = fuzz::text_of(bytes);
    round_trip(text, programs::parse_size);
    round_trip(text, programs::parse_interval);
    round_trip(text, programs::parse_count_or_all);
    round_trip(text, programs::parse_count_or_percent);
    round_trip(text, programs::parse_number);
    (void)fuzz::accepted<programs::usage_error>(
        [&] { fuzz::property(std::isfinite(programs::parse_duration(text)), "a duration is finite"); });
    (void)fuzz::accepted<programs::usage_error>([&] { (void)programs::parse_integer(text); });
    (void)fuzz::accepted<programs::usage_error>([&] { (void)programs::parse_bool(text); });
    (void)fuzz::accepted<programs::usage_error>([&] {
        for (const std::string& part : programs::split_list(text)) fuzz::property(!part.empty(), "parts are not empty");
    });
}

} // namespace test_fuzz_program_units
