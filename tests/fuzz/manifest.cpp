#include "fuzz/target.hpp"

#include <string>

#include <gneiss/io/manifest.hpp>

namespace test_fuzz_manifest {

using namespace gneiss;

static void read(const std::string& text) {
    dataset_manifest manifest;
    if (!fuzz::accepted([&] { manifest = parse_manifest(text, "manifest.json"); })) return;
    fuzz::property(parse_manifest(format_manifest(manifest), "again.json") == manifest, "written data is read back");
}

GNEISS_FUZZ_TARGET("manifest", bytes) {
    std::string text(fuzz::text_of(bytes));
    read(text);
    // The same with its checksum corrected, or no input would get past it.
    const std::size_t key = text.rfind(detail::manifest_checksum_key);
    if (key == std::string::npos) return;
    const std::size_t at = key + detail::manifest_checksum_key.size();
    if (text.size() - at < detail::manifest_checksum_digits) return;
    text.replace(at, detail::manifest_checksum_digits, detail::manifest_checksum_digits, '0');
    read(text.replace(at, detail::manifest_checksum_digits, detail::hexadecimal(checksum(text))));
}

} // namespace test_fuzz_manifest
