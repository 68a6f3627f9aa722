#include <gneiss/storage/embedding/residency.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include <algorithm>
#include <set>

namespace test_storage_embedding_residency {

using namespace gneiss;

TEST_CASE("residencies cover exactly the resident partitions of every state, unbroken and in load order") {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        random_stream draw(random_key{seed, random_domain::user});
        const std::uint64_t partitions = 1 + draw.below(7);
        epoch_plan states(1 + draw.below(12));
        for (buffer_state& s : states)
            for (partition_id p = 0; p < partitions; ++p)
                if (draw.below(2) == 0) s.resident.push_back(p);
        const auto from = static_cast<std::uint32_t>(draw.below(states.size()));
        const std::vector<residency> stays = residencies_of(states, from);
        CHECK(std::is_sorted(stays.begin(), stays.end(), [](const residency& a, const residency& b) {
            return std::pair(a.first, a.partition) < std::pair(b.first, b.partition);
        }));
        for (std::uint32_t s = from; s < states.size(); ++s) {
            std::multiset<partition_id> here;
            for (const residency& stay : stays)
                if (stay.first <= s && s <= stay.last) here.insert(stay.partition);
            CHECK(std::equal(here.begin(), here.end(), states[s].resident.begin(), states[s].resident.end()));
        }
        for (const residency& a : stays) // none was cut that could have continued
            for (const residency& b : stays) CHECK(!(a.partition == b.partition && b.first == a.last + 1));
    }
}

} // namespace test_storage_embedding_residency
