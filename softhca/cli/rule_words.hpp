// SPDX-License-Identifier: BSD-3-Clause
// Fault rules as words of a command line.
#pragma once

#include <string>
#include <string_view>

#include "softhca/cli/fault.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/hca/fault_rules.hpp"

namespace softhca::cli {

/// Fills a rule in from the options `--src`, `--dst`, … What is wrong with them, or an empty text.
std::string read_options(Words words, const FabricView& view, hca::FaultRule& rule);

/// The number of a name ("rnr_retry_exc_err", "retry_exc_err", …, or a number) of ibv_wc_status.
std::optional<std::uint32_t> status_by_name(std::string_view name);
std::optional<std::uint32_t> call_by_name(std::string_view name);
std::optional<std::uint32_t> limit_by_name(std::string_view name);
/// "ENOMEM", "EAGAIN", …, or a number.
std::optional<std::uint32_t> errno_by_name(std::string_view name);

/// The rule in the words that would make it, without the command's name.
std::string rule_text(const hca::FaultRule& rule, const FabricView* view);

}  // namespace softhca::cli
