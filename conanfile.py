"""Conan 2: a header-only package whose options choose components. Tried with `system` by tests/package/conan.sh; with
packages of Conan it has not been run."""

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.gnu import PkgConfig

required_conan_version = ">=2.0"

# component: reference, target in that package, module of pkg-config (none: the library alone)
DEPENDENCIES = {
    "core": [("onetbb/[>=2021.5 <2023]", "onetbb::libtbb", "tbb"), ("xxhash/[>=0.8 <1]", "xxhash::xxhash", "libxxhash")],
    "eigen": [("eigen/[>=3.4 <4]", "eigen::eigen", "eigen3")],
    "io": [("nlohmann_json/[>=3.10 <4]", "nlohmann_json::nlohmann_json", "nlohmann_json"), ("zlib/[>=1.2.11 <2]", "zlib::zlib", "zlib")],
    "uring": [("liburing/[>=2.3 <3]", "liburing::liburing", "liburing")],
    "metis": [("metis/[>=5.1 <6]", "metis::metis", None)],
    "zstd": [("zstd/[>=1.5 <2]", "zstd::libzstd", "libzstd")],
    "yaml": [("yaml-cpp/[>=0.7 <1]", "yaml-cpp::yaml-cpp", "yaml-cpp")],
}
DEFINES = {"uring": ["GNEISS_HAS_URING=1"], "yaml": ["GNEISS_HAS_YAML=1"], "zstd": ["GNEISS_HAS_ZSTD=1"]}


class Gneiss(ConanFile):
    name = "gneiss"
    version = "0.1.0"
    description = "Out-of-core graph-learning primitives and trainers, header-only C++20"
    license = "Apache-2.0"
    topics = ("graph", "embeddings", "gnn", "out-of-core", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "eigen": [True, False],
        "io": [True, False],
        "uring": [True, False],
        "metis": [True, False],
        "yaml": [True, False],
        "zstd": [True, False],
        "system": [True, False],  # dependencies are the machine's, found by pkg-config
    }
    default_options = {"eigen": True, "io": True, "uring": True, "metis": False, "yaml": False, "zstd": False, "system": False}
    exports_sources = "include/*", "LICENSE"
    no_copy_source = True

    def _components(self):
        return ["core"] + [name for name in DEPENDENCIES if name != "core" and self.options.get_safe(name)]

    def requirements(self):
        if self.options.system:
            return
        for component in self._components():
            for reference, _, _ in DEPENDENCIES[component]:
                self.requires(reference, transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("gneiss is for Linux")
        for name in ("yaml", "zstd"):
            if self.options.get_safe(name) and not self.options.io:
                raise ConanInvalidConfiguration(f"{name} needs io")

    def package_id(self):
        self.info.clear()  # headers alone: one package for all settings and options

    def package(self):
        copy(self, "LICENSE", self.source_folder, f"{self.package_folder}/licenses")
        copy(self, "*", f"{self.source_folder}/include", f"{self.package_folder}/include")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "gneiss")
        self.cpp_info.set_property("cmake_target_name", "gneiss::all")
        self.cpp_info.set_property("pkg_config_name", "gneiss-all")
        for name in self._components():
            component = self.cpp_info.components[name]
            component.set_property("cmake_target_name", "gneiss::gneiss" if name == "core" else f"gneiss::{name}")
            component.set_property("pkg_config_name", "gneiss" if name == "core" else f"gneiss-{name}")
            component.bindirs = component.libdirs = []
            component.defines = DEFINES.get(name, [])
            component.requires = [] if name == "core" else ["core"]
            if name in ("yaml", "zstd"):
                component.requires.append("io")
            if name == "core":
                component.system_libs = ["pthread"]
            for _, target, module in DEPENDENCIES[name]:
                component.requires.append(self._system(target, module) if self.options.system else target)

    def _system(self, target, module):
        """A component for the machine's library; returns its name."""
        name = "system-" + target.split("::")[0]
        component = self.cpp_info.components[name]
        component.includedirs = component.libdirs = component.bindirs = []
        if module is None:
            component.system_libs = [target.split("::")[1]]
        else:
            PkgConfig(self, module).fill_cpp_info(component)
        if module == "libxxhash":
            component.system_libs = []  # used inline
        return name
