// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <unistd.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/detail/bad_lines.hpp>

#include "kit/cli/exit_codes.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

const pid_t importing_process = ::getpid();

/// Returns the text of an error with flags as Python spells them: "eval_edges" for "--eval-edges".
std::string python_text(std::string_view text) {
    const auto in_name = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool begins = i == 0 || !in_name(text[i - 1]);
        if (!begins || text.substr(i, 2) != "--" || i + 2 >= text.size() || !in_name(text[i + 2])) {
            result += text[i];
            continue;
        }
        for (i += 2; i < text.size() && in_name(text[i]); ++i) result += text[i] == '-' ? '_' : text[i];
        --i;
    }
    return result;
}

nb::object class_named(const char* name) { return nb::module_::import_("gneiss_graph._errors").attr(name); }

/// Raises an error of gneiss_graph, with the attributes of `more`.
void raise(const char* name, const std::string& text, const gneiss::error_place& place, nb::dict more = {}) {
    if (!place.path.empty()) more["path"] = place.path.string();
    if (!place.field.empty()) more["field"] = place.field;
    if (place.length != 0 || place.offset != 0) more["offset"] = place.offset;
    if (place.line != 0) more["line"] = place.line;
    const nb::object type = class_named(name), error = type(python_text(text), **more);
    PyErr_SetObject(type.ptr(), error.ptr());
}

const char* class_of(gneiss::errc code) {
    switch (code) {
    case gneiss::errc::over_budget: return "OverBudget";
    case gneiss::errc::not_found: return "NotFound";
    case gneiss::errc::not_finite: return "NotFinite";
    case gneiss::errc::corrupt:
    case gneiss::errc::invalid_format:
    case gneiss::errc::out_of_range:
    case gneiss::errc::version_mismatch: return "Corrupt";
    default: return "Error";
    }
}

const char* class_of(const std::error_code& code) {
    return code == std::errc::no_such_file_or_directory ? "NotFound" : "Error";
}

std::string text_of(const gneiss::bad_lines_error& error) {
    std::string text = error.what();
    for (const std::string& line : error.lines()) text += "\n" + line;
    return text;
}

void translate(const std::exception_ptr& thrown, void*) {
    programs::failure said;
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception&) {
        said = programs::describe_current_exception();
    }
    try {
        std::rethrow_exception(thrown);
    } catch (const programs::usage_error&) {
        PyErr_SetString(PyExc_ValueError, python_text(said.message).c_str());
    } catch (const gneiss::over_budget& e) {
        nb::dict parts;
        for (const gneiss::memory_need& part : e.parts()) {
            const nb::str name(part.name.c_str());
            parts[name] = parts.contains(name) ? nb::int_(parts[name]) + nb::int_(part.bytes) : nb::int_(part.bytes);
        }
        nb::dict more;
        more["parts"] = parts;
        more["budget"] = e.limit();
        raise("OverBudget", said.message, e.place(), more);
    } catch (const gneiss::bad_lines_error& e) {
        raise(class_of(e.code()), text_of(e), e.place());
    } catch (const gneiss::error& e) {
        const bool value = e.code() == gneiss::errc::out_of_range && e.place().path.empty(); // such as a seed
        if (value || said.code == programs::exit_code::usage)                                // or a run that exists
            PyErr_SetString(PyExc_ValueError, python_text(said.message).c_str());
        else
            raise(class_of(e.code()), said.message, e.place());
    } catch (const gneiss::io_error& e) {
        raise(class_of(e.code()), said.message, e.place());
    } catch (const std::filesystem::filesystem_error& e) {
        raise(class_of(e.code()), said.message, {.path = e.path1()});
    } catch (const std::system_error& e) {
        raise(class_of(e.code()), said.message, {});
    }
}

} // namespace

void register_errors() { nb::register_exception_translator(translate); }

void refuse_forked_process() {
    if (::getpid() != importing_process)
        throw std::runtime_error(
            "this process was forked after gneiss_graph was imported, so it lacks the threads of its "
            "parent: start processes by spawn, as multiprocessing.set_start_method(\"spawn\") does");
}

} // namespace gneiss_python
