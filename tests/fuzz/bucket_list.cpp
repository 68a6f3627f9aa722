#include "fuzz/target.hpp"

#include <set>
#include <string>

#include <gneiss/order/parse.hpp>

namespace test_fuzz_bucket_list {

using namespace gneiss;

GNEISS_FUZZ_TARGET("bucket_list", bytes) {
    const std::uint32_t partitions = fuzz::take<std::uint8_t>(bytes) % 8 + 1U;
    std::vector<edge_bucket> buckets;
    if (!fuzz::accepted([&] { buckets = parse_buckets(fuzz::text_of(bytes), partitions, "order.txt"); })) return;
    fuzz::property(std::set(buckets.begin(), buckets.end()).size() == partitions * partitions, "each bucket is named");
    std::string text;
    for (const auto& [i, j] : buckets) text += std::to_string(i) + "," + std::to_string(j) + "\r\n";
    fuzz::property(parse_buckets(text, partitions) == buckets, "written data is read back");
}

} // namespace test_fuzz_bucket_list
