#include <gneiss/io/import/graphbolt.hpp>

#include <yaml-cpp/yaml.h>

int main() { return YAML::Load("[1]")[0].as<int>() == 1 ? 0 : 1; }
