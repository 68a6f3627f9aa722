// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace gneiss::detail {

/// Letter of a partition in a sequence.
inline constexpr std::string_view sequence_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Sequence with fewer swaps than BETA, and the parameters with which `search_sequence` of tests/order/swap_search.hpp
/// finds it.
struct found_sequence_row {
    std::uint32_t partitions, resident_partitions, swaps;
    std::uint64_t seed, moves;
    std::string_view swaps_text; ///< see `parse_sequence`
};

/// Verified by tests/order/search.cpp; its suite "long" repeats the search:
///     test_order --source-file='*search.cpp' --test-suite=long
inline constexpr found_sequence_row found_sequences[] = {
    {8, 4, 8, 1, 262144, "AEEFBGGHCADEFGAB"},
    {12, 4, 21, 1, 262144, "CEDFAGGHHIIJEKJLBDDJJCFEEHCILAHGKLLJACCDIH"},
    {16, 4, 39, 3, 524288, "AECFFGDHGIEJBKIFFAALLCJMCNHBBEKJEDJIDFIAAGMCNOFIOLGPCAIEAOEBBFFNNMMDLHHKDGKJJA"},
    {16, 8, 16, 1, 262144, "AIDJJKHLIMGNKOBPCGFAEHGBHIIJBKAD"},
    {20, 5, 47, 13, 16777216,
        "CFFGGHHIIJEKKLJMLNMOAPDQQRRSSTBJJGGFTIFLIELKKCEHNMOAARPKRIMTTGILCFLSSQKJHMMRGCFSCIITJDDAALLEQM"},
    {24, 6, 54, 14, 16777216,
        "EGCHDIIJJKKLLMMNGONPOQPRBSATHGFESOGJRIELLCCDTSSMMUUVVWDKWXONQPJRIDRLDCXSCMSEETTVPUKWNRLCRHCXMEHF"
        "FPEGPAGTABTS"},
    {24, 8, 40, 4, 524288, "DIFJIKJLLMMNNOOPPQQRRSGTTUSVKWBXCGETGIAMHRIFVJMNNLRDLBJOFPBQTKUSWRXFRLFIKNIMMVDJ"},
    {32, 8, 72, 101, 67108864,
        "DIGJJKELKMLNNOMPPQQRRSSTTUUVVWIXXYOZWaYbFcZdCebfBLHUAPLWURWKRNNTTVVXXQQOKEEMMCCJJGOSGISFFDaYcZdb"
        "PLfXeNIOOVZSYRRQDGGESWEJQTLUNMVKbSXDDZSGWYKRGQJE"},
    {32, 16, 32, 1, 262144, "LQJRASBTSUUVRWCXVYXZDaWbZcNdaeTfOaIAFNEDNBGCPLQSKJMXDUHZCVVRYWWT"},
    {48, 12, 111, 9, 4194304,
        "CMENAOIPKQHRLSBTFCDUPVGWNXMYJZCaObbcadTeeBBfQgfAghhiijjHAkkEHPEllmPKKIIFFnnMMJJooLLppDDqqrmGUsGt"
        "cuuvVNYuZCWhSaROaEXbEccfdqNICAOPPGGMMTAUUQIKKkkBBFFgglQHliHnnJiLJDqoDeejLprmbevEslTqhatQunfAqiQk"
        "AgEDDOONNBBHHCCFFGmPPKKMGLMIIJ"},
    {64, 16, 147, 7, 2097152,
        "EQFRQSJTNUMVUWTXKYWZZaIbGccddeSfbgVhhiXjfkklimlnnoRppqmrosqtauuvtwOxDyAGCbBuHoPaGzzKbFxIKULWIdUN"
        "NEFTdQTJW0YceSctgpaVJXXRjnV1yfSlRmr2vis3ozubwcbxQUUIEdIJJGGKK4dNN5cWWFnVVTiXXRT6pSSyl7tOf8x9FqmD"
        "q-y_OARCCPDLPBBkLHHZAM8hz80eessaajjggY1oYrov3q2ttirmvyyKmGKUGSSEiQEdduQbuwwllIIJ4N5XUVVcNTJFFnnf"
        "XpfW8x"},
    {64, 32, 64, 2, 262144,
        "ZgWhNiLjKkJllmOnXoUppqqrnsHttuuvSwjxmyPzV0D1I2o3f4w5h607r8g9T-6_RZAqaDM0cwdNb6BWGPESSfYKFjelDLku"
        "PVjHftHpQgVUCJingOnXwIImyrUT1hxo"},
};

} // namespace gneiss::detail
