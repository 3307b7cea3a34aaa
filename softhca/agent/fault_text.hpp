// SPDX-License-Identifier: BSD-3-Clause
// The words of `softhca fault gsi …` and `softhca fault sa …`, read and written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "softhca/agent/gsi_faults.hpp"
#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

/// What is wrong with the words, and what would be right.
struct FaultMistake {
  std::string text;
};

/// The words behind `gsi`: an action and its options.
std::variant<GsiRule, FaultMistake> parse_gsi_rule(std::span<const std::string> words,
                                                   const FabricView& view);

/// The words behind `sa`: silent, slow MS, busy or rate N, and options.
std::variant<GsiRule, FaultMistake> parse_sa_rule(std::span<const std::string> words,
                                                  const FabricView& view);

/// The rules and what they did, one line each.
std::string list_rules(const GsiFaults& faults);

}  // namespace softhca
