// Checks and shows the compiler's report on kernels: registers, spills, occupancy, required instructions, and a hash of
// each kernel's PTX, which identifies verifications on a GPU.
//
//     gate SOURCE ARCHITECTURE PTX LOG HASHES   SOURCE: the .cu file; LOG: output of ptxas -v; writes HASHES; exit 1 on
//                                               failure
//     gate --changed FOLDER HASHES…             lists kernels whose hash is in no .json file of FOLDER
//
// Lines of SOURCE state required PTX: "// ptx KERNEL: INSTRUCTION", or "// ptx sm_90a KERNEL: INSTRUCTION" for one
// architecture. Every kernel whose name matches the regular expression KERNEL must contain it, and at least one must
// match. Local memory and spills fail. A line "// only KERNEL" excludes the kernels of others that SOURCE instantiates.
// "// shared KERNEL: BYTES" is the most dynamic shared memory that a block is launched with, for the occupancy; the
// tests on the emulator compare it with what `launch` records.
#include <cuda_runtime_api.h>

#include <cuda_occupancy.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gneiss/core/checksum.hpp>

namespace {

struct kernel {
    std::string name{}, ptx{};
    int registers = 0, shared = 0, dynamic = 0, stack = 0, spills = 0, threads = 0;
};

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

/// "gneiss::cuda::detail::kernel<float, 4u>": without parameters and result.
std::string demangled(const std::string& symbol) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
    if (status != 0) return symbol;
    std::string name = text.get();
    if (name.starts_with("void ")) name.erase(0, 5);
    int depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
        if (depth == 0 && name[i] == '(') return name.substr(0, i);
    }
    return name;
}

/// Returns kernels by symbol, with their PTX without comments, source places, and numbers that depend on other kernels;
/// the text of called functions is added to every kernel.
std::map<std::string, kernel> kernels_of(const std::string& ptx) {
    static const std::regex comment("//[^\n]*"), label("\\$L__BB[0-9]+_"), place("\\s*\\.(loc|file)\\b[^\n]*");
    std::map<std::string, kernel> found;
    std::string called;
    kernel* inside = nullptr;
    bool in_function = false;
    int depth = 0; // depth of braces: inline PTX may contain its own
    std::size_t from = 0;
    while (from < ptx.size()) {
        const std::size_t to = std::min(ptx.find('\n', from), ptx.size());
        std::string line = ptx.substr(from, to - from);
        from = to + 1;
        line = std::regex_replace(std::regex_replace(line, comment, ""), label, "$L__BB_");
        if (std::regex_match(line, place)) continue;
        if (const std::size_t entry = line.find(".entry "); entry != line.npos) {
            const std::string symbol = line.substr(entry + 7, line.find('(') - entry - 7);
            inside = &found[symbol];
            inside->name = demangled(symbol);
        } else if (line.find(".func ") != line.npos) {
            in_function = true;
        }
        if (inside != nullptr) inside->ptx += line + "\n";
        if (in_function) called += line + "\n";
        if (inside != nullptr && line.find(".maxntid") != line.npos)
            std::sscanf(line.c_str(), " .maxntid %d", &inside->threads);
        depth += static_cast<int>(std::ranges::count(line, '{')) - static_cast<int>(std::ranges::count(line, '}'));
        if (depth == 0 && line.find('}') != line.npos) {
            inside = nullptr;
            in_function = false;
        }
    }
    for (auto& [_, one] : found) one.ptx += called;
    return found;
}

void read_log(const std::string& log, std::map<std::string, kernel>& kernels) {
    static const std::regex entry("Compiling entry function '([^']+)'"),
        stack("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores"), registers("Used ([0-9]+) registers"),
        shared("([0-9]+) bytes smem");
    kernel* of = nullptr;
    std::smatch found;
    for (std::size_t from = 0; from < log.size();) {
        const std::size_t to = std::min(log.find('\n', from), log.size());
        const std::string line = log.substr(from, to - from);
        from = to + 1;
        if (std::regex_search(line, found, entry)) of = kernels.contains(found[1]) ? &kernels[found[1]] : nullptr;
        if (of == nullptr) continue;
        if (std::regex_search(line, found, stack)) {
            of->stack = std::stoi(found[1]);
            of->spills = std::stoi(found[2]);
        }
        if (std::regex_search(line, found, registers)) of->registers = std::stoi(found[1]);
        if (std::regex_search(line, found, shared)) of->shared = std::stoi(found[1]);
    }
}

/// Returns the number of blocks of `one` that a multiprocessor holds.
int blocks_at_once(const kernel& one, int architecture) {
    cudaOccDeviceProp device;
    device.computeMajor = architecture / 10;
    device.computeMinor = architecture % 10;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = 2048;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = (architecture >= 90 ? 228 : 164) * 1024;
    device.sharedMemPerBlockOptin = (architecture >= 90 ? 227 : 163) * 1024;
    device.reservedSharedMemPerBlock = 1024;
    device.numSms = 1;
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = one.threads;
    function.numRegs = one.registers;
    function.sharedSizeBytes = static_cast<std::size_t>(one.shared);
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin - function.sharedSizeBytes;
    const cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, one.threads,
            static_cast<std::size_t>(one.dynamic)) != CUDA_OCC_SUCCESS)
        return 0;
    return result.activeBlocksPerMultiprocessor;
}

int check(const std::string& source, const std::string& architecture, const std::string& ptx, const std::string& log,
    const std::string& hashes) {
    std::map<std::string, kernel> kernels = kernels_of(read(ptx));
    read_log(read(log), kernels);
    int failures = 0;
    const auto fail = [&](const std::string& what) {
        std::printf("FAILED %s: %s\n", architecture.c_str(), what.c_str());
        ++failures;
    };
    const std::string text = read(source);
    std::smatch ours;
    if (std::regex_search(text, ours, std::regex("// only ([^\n]+)")))
        std::erase_if(kernels,
            [name = std::regex(ours[1].str())](const auto& one) { return !std::regex_search(one.second.name, name); });
    if (kernels.empty()) fail(source + " has no kernel");
    static const std::regex dynamic("// shared ([^\n]+): ([0-9]+)");
    for (std::sregex_iterator i(text.begin(), text.end(), dynamic), end; i != end; ++i) {
        const std::regex named((*i)[1].str());
        for (auto& [_, one] : kernels)
            if (std::regex_search(one.name, named)) one.dynamic = std::stoi((*i)[2]);
    }
    const int number = std::atoi(architecture.c_str() + architecture.find_first_of("0123456789"));
    std::ofstream to(hashes, std::ios::trunc);
    std::printf("%-7s regs shared dynamic threads occupancy kernel\n", "");
    for (const auto& [_, one] : kernels) {
        const int warps = one.threads == 0 ? 0 : blocks_at_once(one, number) * ((one.threads + 31) / 32);
        std::printf("%-7s %4d %6d %7d %7d %8d%% %s\n", architecture.c_str(), one.registers, one.shared, one.dynamic,
            one.threads, warps * 100 / 64, one.name.c_str());
        if (one.dynamic == 0 && one.ptx.find("gneiss_dynamic_shared") != one.ptx.npos)
            fail(one.name + " has dynamic shared memory, and no line of " + source + " says how much");
        if (one.registers == 0) fail(one.name + " is not in what ptxas said");
        if (one.threads == 0) fail(one.name + " has no __launch_bounds__");
        if (one.stack != 0 || one.spills != 0)
            fail(one.name + ": " + std::to_string(one.stack) + " bytes of local memory, " + std::to_string(one.spills) +
                " spilled");
        char hash[17];
        std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(gneiss::checksum(one.ptx)));
        to << hash << ' ' << architecture << ' ' << one.name << '\n';
    }
    static const std::regex wanted("// ptx (sm_[0-9a-z]+ )?([^\n]+): ([^\n]+)");
    for (std::sregex_iterator i(text.begin(), text.end(), wanted), end; i != end; ++i) {
        const std::string only = (*i)[1], name = (*i)[2], instruction = (*i)[3];
        if (!only.empty() && only != architecture + " ") continue;
        const std::regex named(name);
        bool any = false;
        for (const auto& [_, one] : kernels) {
            if (!std::regex_search(one.name, named)) continue;
            any = true;
            if (one.ptx.find(instruction) == one.ptx.npos) fail(one.name + " has no " + instruction);
        }
        if (!any) fail("no kernel is called " + name);
    }
    if (!to.flush()) fail(hashes + ": cannot be written");
    return failures == 0 ? 0 : 1;
}

int tell_changed(const std::string& folder, const std::vector<std::string>& files) {
    std::string verified;
    if (std::filesystem::is_directory(folder))
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            if (entry.path().extension() == ".json") verified += read(entry.path().string());
    std::size_t kernels = 0, changed = 0;
    for (const std::string& file : files) {
        const std::string lines = read(file);
        for (std::size_t from = 0; from < lines.size();) {
            const std::size_t to = std::min(lines.find('\n', from), lines.size());
            const std::string line = lines.substr(from, to - from);
            from = to + 1;
            ++kernels;
            if (verified.find(line.substr(0, 16)) != verified.npos) continue;
            ++changed;
            std::printf("not verified on a GPU as it is: %s\n", line.substr(17).c_str());
        }
    }
    std::printf("%zu of %zu kernels (by architecture) have other PTX than any verified in %s\n", changed, kernels,
        folder.c_str());
    return kernels == 0 ? 1 : 0;
}

} // namespace

int main(int count, char** given) {
    const std::vector<std::string> arguments(given + 1, given + count);
    try {
        if (arguments.size() >= 3 && arguments[0] == "--changed")
            return tell_changed(arguments[1], {arguments.begin() + 2, arguments.end()});
        if (arguments.size() == 5) return check(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
        std::printf("usage: gate SOURCE ARCHITECTURE PTX LOG HASHES | gate --changed FOLDER HASHES…\n");
        return 2;
    } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
        return 1;
    }
}
