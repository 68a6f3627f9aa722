#include <gneiss/model/embedding_table.hpp>

#include <doctest/doctest.h>

namespace test_model_embedding_table {

using namespace gneiss;

TEST_CASE("an embedding table keeps state next to values, all zero at first") {
    embedding_table table(3, {4, 2});
    CHECK(table.size_bytes() == 3 * 6 * sizeof(float));
    for (std::size_t i = 0; i < 3; ++i)
        for (const float x : table.table()[i]) CHECK(x == 0);
    table.values()(1, 3) = 5;
    CHECK(table.table()(1, 3) == 5);
    CHECK(table.values().stride() == 6);
    CHECK(embedding_table(7, {0, 0}).values().empty());
}

TEST_CASE("row gradients keep their memory when they shrink") {
    sparse_gradients gradients;
    gradients.resize(10, 4);
    const float* const memory = gradients.rows().data();
    gradients.resize(3, 4);
    CHECK(gradients.rows().data() == memory);
    CHECK(gradients.ids().size() == 3);
    CHECK(gradients.rows().rows() == 3);
}

} // namespace test_model_embedding_table
