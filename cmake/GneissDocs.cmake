# The target docs: the API reference of the headers, by Doxygen, in reference/html of the build folder. It fails on a
# name without documentation and on every other warning that docs/doxygen/known_warnings does not list.
find_package(Doxygen 1.9.4 REQUIRED)
find_path(DOXYGEN_AWESOME_CSS doxygen-awesome.css PATHS /usr/share/doxygen-awesome-css NO_DEFAULT_PATH
          DOC "Folder of the style doxygen-awesome; without it, Doxygen's own")
set(GNEISS_DOCS_OUTPUT ${PROJECT_BINARY_DIR}/reference)
set(GNEISS_DOCS_STYLE "")
if(DOXYGEN_AWESOME_CSS)
  set(GNEISS_DOCS_STYLE "\"${DOXYGEN_AWESOME_CSS}/doxygen-awesome.css\"")
  string(APPEND GNEISS_DOCS_STYLE " \"${DOXYGEN_AWESOME_CSS}/doxygen-awesome-sidebar-only.css\"")
endif()
configure_file(${PROJECT_SOURCE_DIR}/docs/doxygen/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
add_custom_target(docs COMMAND ${PROJECT_SOURCE_DIR}/docs/doxygen/build $<TARGET_FILE:Doxygen::doxygen>
                               ${PROJECT_BINARY_DIR}/Doxyfile ${GNEISS_DOCS_OUTPUT}
                  COMMENT "Making the API reference" VERBATIM USES_TERMINAL)
