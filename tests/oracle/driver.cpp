#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "cases.hpp"

// Calls the library for Python, which compares the results. Results are files in a folder.
int main(int count, char** values) {
    const std::span<char*> arguments(values, static_cast<std::size_t>(count));
    const std::string command = count > 2 ? arguments[1] : "";
    try {
        if (command == "layers" && count == 3)
            oracle::write_layers(arguments[2]);
        else if (command == "training" && count == 3)
            oracle::write_training(arguments[2]);
        else if (command == "draws" && count == 3)
            oracle::write_draws(arguments[2]);
        else if (command == "weights" && count == 7)
            oracle::write_weights(arguments[2], arguments[3], std::stoul(arguments[4]),
                arguments[5] == std::string("sparse"), arguments[6]);
        else {
            std::fputs("usage: oracle_driver layers|training|draws FOLDER\n"
                       "       oracle_driver weights CHECKPOINT LAYERS COLUMNS dense|sparse FOLDER\n",
                stderr);
            return 2;
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: %s\n", e.what());
        return 1;
    }
    return 0;
}
