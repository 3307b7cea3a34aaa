# SPDX-License-Identifier: BSD-3-Clause
# Language level, warnings, sanitizers and ccache, in one interface target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Assertions stay alive in every build type: the release flags carry no NDEBUG.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

find_program(WIREUP_CCACHE ccache)
if(WIREUP_CCACHE)
  # Paths relative to the source folder, so that one clone's results serve the next one's build.
  set(CMAKE_C_COMPILER_LAUNCHER
    env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=true "${WIREUP_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

add_library(wireup_compiler INTERFACE)
target_compile_options(wireup_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual>
  -Werror=switch
  $<$<BOOL:${WIREUP_WERROR}>:-Werror>)

# Sanitizers apply to our own programs, not to the preload library, which must load into
# programs that are not instrumented.
add_library(wireup_sanitize INTERFACE)
if(WIREUP_SANITIZE)
  target_compile_options(wireup_sanitize INTERFACE
    -fsanitize=${WIREUP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(wireup_sanitize INTERFACE -fsanitize=${WIREUP_SANITIZE})
endif()
if(WIREUP_BUILD_FUZZERS)
  # Coverage feedback from the code under test too, not only from the targets.
  target_compile_options(wireup_sanitize INTERFACE -fsanitize=fuzzer-no-link)
endif()
