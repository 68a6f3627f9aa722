#include <gneiss/dist/group_sampler.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <sample/graphs.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_dist_group_sampler {

using namespace gneiss;

namespace {

const serial_executor serial;
constexpr std::uint64_t seed = 3;
constexpr frame_id id{41, {4, {2, 0, 0}}};

/// Lists of some nodes of a graph; those of others may not be read.
struct owned_lists {
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 16;

    const csr_graph<>& all;
    const partition_owners& owners;
    std::uint32_t mine;

    [[nodiscard]] std::uint64_t nodes() const { return all.nodes(); }
    [[nodiscard]] std::uint64_t id_of(node_id v) const { return v; }
    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        for (const node_id v : ids) REQUIRE(owners.of(v) == mine);
        all.degrees(ids, d, to);
    }
    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        all.neighbors_at(request, answer);
    }
};
static_assert(neighbor_source<owned_lists>);

/// Workers that own random partitions of a random graph; partitions without one are not resident.
struct cluster {
    std::uint32_t workers;
    row_partitioning rows;
    partition_owners owners;
    csr_graph<> graph; // over the union of what all own
    std::vector<node_id> resident;
    neighbor_options options;
    std::vector<hop_owner> draws;
    std::vector<mini_batch_arena> arenas;
    std::vector<std::pair<std::uint32_t, std::size_t>> asked{}; // worker, and bytes

    cluster(std::uint64_t nodes, std::uint32_t partitions, std::uint32_t of_workers, bool all_resident,
        neighbor_options with)
        : workers(of_workers),
          rows(nodes, partitions),
          graph(test::whole_graph<node_id>(1, {{0, 0, 0}})),
          options(std::move(with)),
          draws(workers, hop_owner(options, seed)),
          arenas(workers) {
        random_stream draw(random_key(nodes * 31 + partitions * 7 + workers, random_domain::user));
        std::vector<std::uint32_t> of(partitions);
        for (std::uint32_t& owner : of) {
            owner = static_cast<std::uint32_t>(draw.below(workers + (all_resident ? 0 : 1)));
            if (owner == workers) owner = partition_owners::no_owner;
        }
        of[0] = 0; // one at least
        owners = {rows, of};
        for (node_id v = 0; v < nodes; ++v)
            if (owners.of(v) != partition_owners::no_owner) resident.push_back(v);
        auto edges = test::hub_edges(nodes, nodes * 6, nodes);
        std::erase_if(edges, [&](const edge& e) {
            return owners.of(e.source) == partition_owners::no_owner ||
                owners.of(e.destination) == partition_owners::no_owner;
        });
        graph = test::whole_graph(nodes, edges);
    }
    [[nodiscard]] std::vector<owner_message> ask(std::span<const owner_message> questions) {
        std::set<std::uint32_t> once;
        std::vector<owner_message> answers;
        for (const owner_message& question : questions) {
            const std::uint32_t w = question.owner;
            CHECK(once.insert(w).second);
            const auto owns = [&](node_id v) { return owners.of(v) == w; };
            answers.push_back(
                {w, draws[w].answer(question.bytes, id.run, owned_lists{graph, owners, w}, owns, serial, arenas[w])});
            asked.emplace_back(w, question.bytes.size() + answers.back().bytes.size());
        }
        return answers;
    }
};

/// Checks a group of each worker's batches against a sampler over the union, and the messages against the bound.
template <class Writer, class Sampler>
void check(cluster& of, std::size_t group) {
    group_sampler<Writer> sampler;
    for (std::uint32_t self = 0; self < of.workers; ++self) {
        std::vector<std::uint64_t> batches;
        std::vector<std::vector<node_id>> seeds;
        for (std::size_t b = 0; b < group; ++b) {
            batches.push_back(5 + 3 * b + self);
            std::vector<node_id> some = of.resident;
            shuffle(some, random_key(b + 10 * self, random_domain::user));
            some.resize((some.size() + 3) / 4);
            seeds.push_back(some);
        }
        of.asked.clear();
        hop_owner own(of.options, seed);
        const construction_traffic sent = sampler.draw(id, batches, seeds, of.owners, of.workers, self, own,
            owned_lists{of.graph, of.owners, self}, serial, [&](auto questions) { return of.ask(questions); });
        for (std::size_t b = 0; b < group; ++b) {
            const batch_key key{id.key.epoch, {id.key.number.state, 0, batches[b]}};
            mini_batch_arena ours, theirs;
            (void)sampler.sample(b).write(key, ours);
            (void)Sampler(of.options, seed).sample(key, of.graph, std::span<const node_id>(seeds[b]), serial, theirs);
            CHECK((test::contents(ours) == test::contents(theirs)));
        }
        std::uint64_t bytes = 0;
        for (const auto& [worker, size] : of.asked) {
            CHECK(worker != self);
            bytes += size;
        }
        CHECK(of.asked.size() <= of.options.fanout.size() * (of.workers - 1)); // whatever the group
        CHECK(sent.messages == 2 * of.asked.size());
        CHECK(sent.question_bytes + sent.answer_bytes == bytes);
        if (of.workers == 1) CHECK(sent.remote == 0);
    }
}

} // namespace

TEST_CASE("batches from the answers of several owners are those over the union of their partitions, bit by bit") {
    for (const std::uint64_t nodes : {7U, 60U, 400U})
        for (const std::uint32_t workers : {1U, 2U, 5U})
            for (const char* fanout : {"4", "3,2,2", "all,2", "2+1,0+2"})
                for (const bool flag : {false, true})
                    for (const std::size_t group : {1U, 3U}) {
                        CAPTURE(nodes);
                        CAPTURE(workers);
                        CAPTURE(fanout);
                        cluster of(nodes, 6, workers, flag,
                            {parse_fanout(fanout, flag ? neighbor_direction::both : neighbor_direction::in), flag, flag,
                                !flag});
                        check<neighbor_sample_writer<>, neighbor_sampler<>>(of, group);
                        check<dense_sample_writer<>, dense_sampler<>>(of, group);
                    }
}

TEST_CASE("a hop of a group is one message per owner: larger groups send fewer messages and the same nodes") {
    cluster of(400, 8, 4, true, {.fanout = parse_fanout("5,5")});
    hop_owner own(of.options, seed);
    std::vector<std::uint64_t> batches;
    std::vector<std::vector<node_id>> seeds;
    for (std::uint64_t b = 0; b < 8; ++b) {
        batches.push_back(b);
        seeds.push_back(test::some_nodes(400, 50, b));
    }
    const auto traffic = [&](std::size_t group) {
        group_sampler<neighbor_sample_writer<>> sampler;
        construction_traffic sum;
        for (std::size_t b = 0; b < batches.size(); b += group)
            sum += sampler.draw(id, std::span(batches).subspan(b, group), std::span(seeds).subspan(b, group), of.owners,
                4, 1, own, owned_lists{of.graph, of.owners, 1}, serial,
                [&](auto questions) { return of.ask(questions); });
        return sum;
    };
    const construction_traffic one = traffic(1), eight = traffic(8);
    std::set<std::uint32_t> others; // a worker may own nothing
    for (node_id v = 0; v < 400; ++v)
        if (of.owners.of(v) != 1) others.insert(of.owners.of(v));
    CHECK(others.size() > 1);
    CHECK(one.messages == 8 * 2 * others.size() * 2); // batches, hops, owners, question and answer
    CHECK(eight.messages == 2 * others.size() * 2);
    CHECK(eight.remote == one.remote);
    CHECK(eight.local == one.local);
    CHECK(eight.question_bytes < one.question_bytes);
    CHECK(eight.answer_bytes < one.answer_bytes);
}

TEST_CASE("questions for nodes of others, and answers to other questions, are refused") {
    cluster of(60, 6, 2, true, {.fanout = parse_fanout("2,2")});
    const std::vector<std::uint64_t> batches{1};
    const std::vector<std::uint32_t> offsets{0, 1};
    std::vector<node_id> nodes{0};
    while (of.owners.of(nodes[0]) != 1) ++nodes[0];
    mini_batch_arena question, answer;
    const auto answered = [&](const hop_question& from, std::uint32_t by) {
        return of.draws[by].answer(
            write_message(from, question), id.run, owned_lists{of.graph, of.owners, by},
            [&](node_id v) { return of.owners.of(v) == by; }, serial, answer);
    };
    const hop_question good{id, 1, batches, offsets, nodes};
    CHECK_NOTHROW((void)answered(good, 1));
    CHECK(test::code_of([&] { (void)answered(good, 0); }) == errc::out_of_range);
    const std::vector<node_id> beyond{60};
    CHECK(test::code_of([&] { (void)answered({id, 1, batches, offsets, beyond}, 1); }) == errc::out_of_range);
    CHECK(test::code_of([&] { (void)answered({id, 2, batches, offsets, nodes}, 1); }) == errc::out_of_range);
    CHECK(
        test::code_of([&] { (void)answered({{42, id.key}, 1, batches, offsets, nodes}, 1); }) == errc::config_mismatch);

    group_sampler<neighbor_sample_writer<>> sampler;
    hop_owner own(of.options, seed);
    const std::vector<std::vector<node_id>> seeds{of.resident};
    const auto drawn = [&](const ask_owners& ask) {
        (void)sampler.draw(id, batches, seeds, of.owners, 2, 0, own, owned_lists{of.graph, of.owners, 0}, serial, ask);
    };
    CHECK_NOTHROW(drawn([&](auto questions) { return of.ask(questions); }));
    CHECK(test::code_of([&] { drawn([](auto) { return std::vector<owner_message>{}; }); }) == errc::invalid_argument);
    CHECK(test::code_of([&] {
        drawn([&](auto) { // of another hop
            return std::vector<owner_message>{{1, answered(good, 1)}};
        });
    }) == errc::config_mismatch);
    const partition_owners none(of.rows, std::vector<std::uint32_t>(6, partition_owners::no_owner));
    CHECK(test::code_of([&] {
        (void)sampler.draw(id, batches, seeds, none, 2, 0, own, owned_lists{of.graph, of.owners, 0}, serial, {});
    }) == errc::out_of_range);
}

} // namespace test_dist_group_sampler
