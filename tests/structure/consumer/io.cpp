#include <gneiss/io/manifest.hpp>

#include <nlohmann/json.hpp>
#include <zlib.h>

int main() { return nlohmann::json::parse("[1]").size() == 1 && crc32(0, nullptr, 0) == 0 ? 0 : 1; }
