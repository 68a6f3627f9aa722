#include <gneiss/storage/engine/probe.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

#include <cstddef>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace test_storage_engine_probe {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

/// Makes `call` fail with `number` in this process from now on.
bool forbid(int call, int number) {
    sock_filter program[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<unsigned>(call)},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<unsigned>(number)},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Runs `body` in a child process and returns its result.
template <class Body>
bool in_child(Body body) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        bool good = false;
        try {
            good = body();
        } catch (...) {
            good = false;
        }
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool round_trip(any_engine engine, const std::filesystem::path& path) {
    file target(engine, path, {.write = true, .create = true, .truncate = true});
    std::vector<std::byte> sent(100'000, std::byte{42}), received(sent.size());
    io_queue queue(engine, {.piece_bytes = 4096});
    queue.write(target, 0, sent);
    queue.sync(target);
    queue.drain();
    queue.read(target, 0, received);
    queue.drain();
    return sent == received;
}

engine_candidate broken(std::string name, fault_kind kind) {
    return {std::move(name), [kind] {
                const auto injector = std::make_shared<fault_injector>(fault{kind, 1, true, {}});
                return any_engine(faulty(threads_engine(1), injector));
            }};
}

} // namespace

TEST_CASE("the first candidate that can read is chosen, and the refusals of earlier ones are the reason") {
    const std::vector<engine_candidate> candidates{
        broken("first", fault_kind::device_error), broken("second", fault_kind::zero_read), threads_candidate()};
    const engine_choice choice = choose_engine("auto", candidates);
    CHECK(choice.name == "threads");
    CHECK(choice.reason.find("first: ") != std::string::npos);
    CHECK(choice.reason.find("second: ") != std::string::npos);
    CHECK(choice.make().traits().name == "threads");
}

TEST_CASE("an engine requested by name is returned, or an error gives the reason") {
    const std::vector<engine_candidate> candidates{broken("bad", fault_kind::device_error), threads_candidate()};
    CHECK(choose_engine("threads", candidates).name == "threads");
    const auto code_of = [&](std::string_view name) {
        try {
            (void)choose_engine(name, candidates);
        } catch (const error& e) {
            return e.code();
        }
        return errc::closed;
    };
    CHECK(code_of("bad") == errc::unsupported);
    CHECK(code_of("other") == errc::invalid_argument);
    CHECK_THROWS_WITH_AS((void)choose_engine("other", candidates), doctest::Contains("bad, threads"), error);
}

#ifdef GNEISS_HAS_URING
TEST_CASE("if io_uring is forbidden, unknown or out of memory, threads are chosen and the reason is reported") {
    const temporary_directory folder;
    for (const int number : {EPERM, ENOSYS, EINVAL, ENOMEM}) {
        CAPTURE(number);
        CHECK(in_child([&] {
            if (!forbid(SYS_io_uring_setup, number)) return false;
            const engine_choice choice = choose_engine();
            const std::string expected = std::generic_category().message(number);
            return choice.name == "threads" && choice.reason.find("uring: ") == 0 &&
                choice.reason.find(expected) != std::string::npos && round_trip(choice.make(), folder / "f");
        }));
    }
}

TEST_CASE("a ring that is granted but unusable counts as forbidden") {
    const temporary_directory folder;
    CHECK(in_child([&] {
        if (!forbid(SYS_io_uring_enter, EPERM)) return false;
        const engine_choice choice = choose_engine();
        return choice.name == "threads" && round_trip(choice.make(), folder / "f");
    }));
}

TEST_CASE("an engine is found if rings can be created but not registered with") {
    const temporary_directory folder;
    CHECK(in_child([&] {
        // SINGLE_ISSUER rings need IORING_REGISTER_ENABLE_RINGS; if it is refused, the probe falls back.
        if (!forbid(SYS_io_uring_register, EINVAL)) return false;
        const engine_choice choice = choose_engine();
        return round_trip(choice.make(), folder / "f");
    }));
}
#endif

} // namespace test_storage_engine_probe
