#include <gneiss/io/import/text_reader.hpp>

int main() {
    return GNEISS_HAS_ZSTD == 1 && ZSTD_versionNumber() > 0 && gneiss::importing::is_packed("edges.tsv.zst") ? 0 : 1;
}
