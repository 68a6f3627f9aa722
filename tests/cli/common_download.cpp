#include "kit/cli/download.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>

#include "kit/cli/process.hpp"
#include "support/http_server.hpp"
#include "support/pseudo_terminal.hpp"
#include "support/temporary_directory.hpp"

namespace test_cli_common_download {

using namespace programs;
using gneiss::test::http_server;

namespace {

namespace fs = std::filesystem;
using requests = std::vector<std::string>;

constexpr std::uint64_t bytes = 350000;
constexpr const char* sha256 = "ab36715d45656d57b44b2438798ba977dcf91ebcce53f4a391a7953292383fb7";
constexpr const char* md5 = "632deca4631af9950427f433e63dfa57";

/// 50,000 lines of six digits, of the checksums above.
std::string content() {
    std::string text;
    for (int i = 0; i < 50000; ++i) {
        const std::string digits = std::to_string(i);
        text += std::string(6 - digits.size(), '0') + digits + "\n";
    }
    return text;
}

std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

struct place {
    gneiss::test::temporary_directory at;
    fs::path file = at / "graph.txt", part = at / "graph.txt.part";

    /// Returns the error of a download, empty if there is none.
    [[nodiscard]] std::string failure_of(
        const published_file& from, const download_options& options = {.quiet = true}) const {
        try {
            (void)obtain(from, at.path(), options);
            return "";
        } catch (const gneiss::error& failed) {
            return failed.what();
        }
    }
};

bool has(const std::string& text, std::initializer_list<const char*> parts) {
    return std::ranges::all_of(parts, [&](const char* part) { return text.find(part) != std::string::npos; });
}

} // namespace

TEST_CASE("a file is downloaded once, and its size and checksum are those published") {
    http_server server({{"/a/graph.txt", content()}});
    const place here;
    const published_file file{.url = server.url() + "/a/graph.txt", .bytes = bytes, .sha256 = sha256};
    const obtained_file got = obtain(file, here.at.path(), {.quiet = true});
    CHECK(got.path == here.file);
    CHECK(got.bytes == bytes);
    CHECK(got.sha256 == sha256);
    CHECK(read(here.file) == content());
    CHECK_FALSE(fs::exists(here.part));
    CHECK(server.requests() == requests{"/a/graph.txt 0"});
    CHECK(obtain(file, here.at.path(), {.quiet = true}).sha256 == sha256);
    CHECK(server.requests().empty());
    CHECK(here.failure_of({.url = file.url, .md5 = md5}).empty());
}

TEST_CASE("a reply that is cut is resumed at its last byte") {
    http_server server({{"/graph.txt", content()}});
    server.cut = 150000;
    const place here;
    CHECK(
        obtain({.url = server.url() + "/graph.txt", .sha256 = sha256}, here.at.path(), {.quiet = true}).bytes == bytes);
    CHECK(server.requests() == requests{"/graph.txt 0", "/graph.txt 150000", "/graph.txt 300000"});
    CHECK(read(here.file) == content());
}

TEST_CASE("a download that fails keeps its part, and the next call resumes it, from a mirror too") {
    const place here;
    {
        http_server server({{"/graph.txt", content()}});
        server.cut = 0;
        write(here.part, content().substr(0, 100000));
        const std::string failed =
            here.failure_of({.url = server.url() + "/graph.txt", .bytes = bytes, .sha256 = sha256});
        CAPTURE(failed);
        CHECK(has(failed,
            {"cannot download http://127.0.0.1", "ends early", "resumes after the 97.6 KiB", "graph.txt.part",
                "--from"}));
        CHECK(server.requests() == requests(3, "/graph.txt 100000"));
        CHECK(fs::file_size(here.part) == 100000);
    }
    http_server mirror({{"/copy/graph.txt", content()}});
    const published_file file{.url = "http://127.0.0.1:1/graph.txt", .bytes = bytes, .sha256 = sha256};
    CHECK(obtain(file, here.at.path(), {.mirror = mirror.url() + "/copy", .quiet = true}).sha256 == sha256);
    CHECK(mirror.requests() == requests{"/copy/graph.txt 100000"});
    CHECK(read(here.file) == content());
}

TEST_CASE("a part that is complete, or too long, is not resumed") {
    http_server server({{"/graph.txt", content()}});
    const place here;
    const published_file file{.url = server.url() + "/graph.txt", .bytes = bytes, .sha256 = sha256};
    write(here.part, content());
    CHECK(here.failure_of(file).empty());
    CHECK(server.requests().empty());
    fs::remove(here.file);
    write(here.part, content() + "more");
    CHECK(here.failure_of(file).empty());
    CHECK(server.requests() == requests{"/graph.txt 0"});
    fs::remove(here.file);
    write(here.part, content()); // of unknown size: the server replies that there is no more
    CHECK(here.failure_of({.url = file.url, .sha256 = sha256}).empty());
    CHECK(server.requests() == requests{"/graph.txt 350000"});
}

TEST_CASE("a server that cannot resume sends the whole file again") {
    http_server server({{"/graph.txt", content()}});
    server.ranges = false;
    const place here;
    write(here.part, content().substr(0, 100000));
    CHECK(here.failure_of({.url = server.url() + "/graph.txt", .bytes = bytes, .sha256 = sha256}).empty());
    CHECK(server.requests() == requests{"/graph.txt 100000", "/graph.txt 0"});
}

TEST_CASE("another size or checksum is refused and the download removed, unless it is accepted by a flag") {
    std::string other = content();
    other.back() = ' ';
    http_server server({{"/graph.txt", other}});
    const place here;
    const std::string url = server.url() + "/graph.txt";
    for (const published_file& file :
        {published_file{.url = url, .bytes = bytes, .sha256 = sha256}, published_file{.url = url, .md5 = md5}}) {
        const std::string failed = here.failure_of(file);
        CAPTURE(failed);
        CHECK(has(failed,
            {"graph.txt", file.sha256.empty() ? md5 : sha256, file.sha256.empty() ? "MD5" : "SHA-256", "is removed",
                "--no-verify"}));
        CHECK_FALSE(fs::exists(here.file));
        CHECK_FALSE(fs::exists(here.part));
    }
    CHECK(has(here.failure_of({.url = url, .bytes = bytes + 1}), {"has 350000 bytes, the published file has 350001"}));
    const obtained_file got =
        obtain({.url = url, .bytes = 1, .sha256 = sha256}, here.at.path(), {.verify = false, .quiet = true});
    CHECK(got.bytes == bytes);
    CHECK(got.sha256 != sha256);
}

TEST_CASE("a server that sends more than is expected is cut off, whether it states the length or not") {
    http_server server({{"/graph.txt", content()}});
    const place here;
    for (const bool stated : {true, false}) {
        server.states_length = stated;
        const std::string failed = here.failure_of({.url = server.url() + "/graph.txt", .most_bytes = 1000});
        CAPTURE(failed);
        CHECK(has(failed, {"/graph.txt: the server sends more than 1000 B"}));
        CHECK_FALSE(fs::exists(here.part));
        CHECK_FALSE(fs::exists(here.file));
    }
    const std::string published = here.failure_of({.url = server.url() + "/graph.txt", .bytes = bytes - 1});
    CAPTURE(published);
    CHECK(has(published, {"the server sends more than 341 KiB"}));
}

TEST_CASE("a redirect is followed to HTTP and HTTPS alone") {
    http_server server({{"/there/graph.txt", content()}});
    const place here;
    server.redirect("/graph.txt", server.url() + "/there/graph.txt");
    server.redirect("/local/graph.txt", "file:///etc/passwd");
    CHECK(here.failure_of({.url = server.url() + "/graph.txt", .bytes = bytes, .sha256 = sha256}).empty());
    fs::remove(here.file);
    CHECK(has(here.failure_of({.url = server.url() + "/local/graph.txt"}), {"is neither HTTPS nor"}));
    CHECK(has(here.failure_of({.url = "file:///etc/passwd"}), {"is neither HTTPS nor"}));
    CHECK_FALSE(fs::exists(here.file));
}

TEST_CASE("a server of HTTPS that redirects to HTTP is refused") {
    if (!has_program("openssl")) {
        MESSAGE("skipped: openssl was not found");
        return;
    }
    http_server plain({{"/graph.txt", content()}});
    const place here;
    const std::string key = (here.at / "key.pem").string(), certificate = (here.at / "certificate.pem").string();
    (void)output_of({"sh", "-c",
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout \"$0\" -out \"$1\" -days 2 -subj /CN=localhost -addext "
        "subjectAltName=DNS:localhost 2>&1",
        key, certificate});
    // openssl sends files of its working directory as whole replies.
    write(here.at / "graph.txt",
        "HTTP/1.1 302 Found\r\nLocation: " + plain.url() +
            "/graph.txt\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    process_source server(
        {"sh", "-c", "cd \"$0\" && exec openssl s_server -HTTP -accept 127.0.0.1:0 -key \"$1\" -cert \"$2\"",
            here.at.path().string(), key, certificate},
        true);
    std::string said;
    for (char c = 0; said.find("ACCEPT") == std::string::npos || said.back() != '\n'; said += c)
        REQUIRE(server.read(&c, 1) == 1);
    const std::string port = said.substr(said.rfind(':') + 1, said.size() - said.rfind(':') - 2);
    const gneiss::test::environment_variable trusted("CURL_CA_BUNDLE", certificate.c_str()),
        direct("no_proxy", "localhost,127.0.0.1");
    const fs::path to = here.at / "download";
    try {
        (void)obtain({.url = "https://localhost:" + port + "/graph.txt"}, to, {.quiet = true});
        FAIL("a redirect from HTTPS to HTTP was followed");
    } catch (const gneiss::error& refused) {
        CHECK(has(refused.what(), {"is neither HTTPS nor"}));
    }
    CHECK(plain.requests().empty());
    CHECK_FALSE(fs::exists(to / "graph.txt"));
}

TEST_CASE("a missing file and a missing network are errors that name the URL and a remedy") {
    http_server server({});
    const place here;
    std::string failed = here.failure_of({.url = server.url() + "/graph.txt"});
    CAPTURE(failed);
    CHECK(has(failed, {"cannot download http://127.0.0.1:", "/graph.txt: the server answers HTTP 404", "--from FILE"}));
    failed = here.failure_of({.url = "http://127.0.0.1:1/graph.txt"});
    CHECK(has(failed,
        {"cannot download http://127.0.0.1:1/graph.txt: the host accepts no connection", "is there a network?",
            "--from FILE"}));
    CHECK_FALSE(fs::exists(here.file));
    CHECK_FALSE(fs::exists(here.part));
}

TEST_CASE("a given file, or one in a given directory, is checked and used in place") {
    const place here;
    const fs::path folder = here.at / "given";
    fs::create_directory(folder);
    write(folder / "graph.txt", content());
    const published_file file{.url = "http://127.0.0.1:1/graph.txt", .bytes = bytes, .sha256 = sha256};
    for (const fs::path& from : {folder, folder / "graph.txt"})
        CHECK(obtain(file, here.at.path(), {.from = from}).path == folder / "graph.txt");
    CHECK(has(here.failure_of(file, {.from = folder / "none.txt"}),
        {"none.txt", "no such file", "http://127.0.0.1:1/graph.txt"}));
    write(folder / "graph.txt", "other");
    CHECK(has(here.failure_of(file, {.from = folder}), {"has 5 bytes", "--no-verify accepts it"}));
    CHECK(read(folder / "graph.txt") == "other");
    CHECK(obtain(file, here.at.path(), {.from = folder, .verify = false}).bytes == 5);
}

} // namespace test_cli_common_download
