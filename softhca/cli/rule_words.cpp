// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cli/rule_words.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <utility>

#include "softhca/fabric/words.hpp"

namespace softhca::cli {
namespace {

using Name = std::pair<std::string_view, std::uint32_t>;

constexpr std::array<Name, 13> kCalls{{{"open_device", 1},
                                       {"alloc_pd", 2},
                                       {"reg_mr", 3},
                                       {"create_channel", 4},
                                       {"create_cq", 5},
                                       {"resize_cq", 6},
                                       {"create_srq", 7},
                                       {"create_qp", 8},
                                       {"modify_qp", 9},
                                       {"create_ah", 10},
                                       {"attach_mcast", 11},
                                       {"post_send", 12},
                                       {"post_recv", 13}}};
static_assert(kCalls.back().second == static_cast<std::uint32_t>(hca::Call::PostRecv));

constexpr std::array<Name, 3> kLimits{{{"qps", 1}, {"cqes", 2}, {"memory", 3}}};
static_assert(kLimits.back().second == static_cast<std::uint32_t>(hca::Limit::Memory));

// The errors of enum ibv_wc_status that an HCA of this kind can give.
constexpr std::array<Name, 12> kStatuses{{{"loc_len_err", IBV_WC_LOC_LEN_ERR},
                                          {"loc_qp_op_err", IBV_WC_LOC_QP_OP_ERR},
                                          {"loc_prot_err", IBV_WC_LOC_PROT_ERR},
                                          {"wr_flush_err", IBV_WC_WR_FLUSH_ERR},
                                          {"loc_access_err", IBV_WC_LOC_ACCESS_ERR},
                                          {"rem_inv_req_err", IBV_WC_REM_INV_REQ_ERR},
                                          {"rem_access_err", IBV_WC_REM_ACCESS_ERR},
                                          {"rem_op_err", IBV_WC_REM_OP_ERR},
                                          {"retry_exc_err", IBV_WC_RETRY_EXC_ERR},
                                          {"rnr_retry_exc_err", IBV_WC_RNR_RETRY_EXC_ERR},
                                          {"fatal_err", IBV_WC_FATAL_ERR},
                                          {"general_err", IBV_WC_GENERAL_ERR}}};

constexpr std::array<Name, 8> kErrnos{{{"EPERM", EPERM},
                                       {"EAGAIN", EAGAIN},
                                       {"ENOMEM", ENOMEM},
                                       {"EBUSY", EBUSY},
                                       {"EINVAL", EINVAL},
                                       {"ENOSPC", ENOSPC},
                                       {"EIO", EIO},
                                       {"EOPNOTSUPP", EOPNOTSUPP}}};

constexpr std::array<Name, 7> kStates{{{"RESET", IBV_QPS_RESET},
                                       {"INIT", IBV_QPS_INIT},
                                       {"RTR", IBV_QPS_RTR},
                                       {"RTS", IBV_QPS_RTS},
                                       {"SQD", IBV_QPS_SQD},
                                       {"SQE", IBV_QPS_SQE},
                                       {"ERR", IBV_QPS_ERR}}};

std::optional<std::uint32_t> look_up(std::span<const Name> names, std::string_view text) {
  for (const auto& [name, number] : names) {
    if (name == text) {
      return number;
    }
  }
  return std::nullopt;
}

std::string name_of(std::span<const Name> names, std::uint32_t wanted) {
  for (const auto& [name, number] : names) {
    if (number == wanted) {
      return std::string(name);
    }
  }
  return std::to_string(wanted);
}

/// False when `text` names no port.
bool read_ports(std::string_view text, const FabricView& view, hca::RulePorts& ports) {
  for (const PortIndex port : ports_by_name(text, view)) {
    if (ports.count < ports.ports.size()) {
      ports.ports[ports.count++] = port;
    }
  }
  return ports.count != 0;
}

std::string ports_text(const hca::RulePorts& ports, const FabricView* view) {
  std::string text;
  for (const HcaInfo& hca : view != nullptr ? view->all_hcas() : std::vector<HcaInfo>{}) {
    for (std::size_t i = 0; i < hca.ports.size(); ++i) {
      if (ports.contain(hca.ports[i])) {
        text += (text.empty() ? "" : ",") + hca.host + ":" + hca.name + ":" + std::to_string(i + 1);
      }
    }
  }
  return text.empty() ? "?" : text;
}

/// What is wrong with one option, or an empty text.
std::string read_option(std::string_view name, const char* text, const FabricView& view,
                        hca::FaultRule& rule) {
  const std::string said = std::string(name) + " is \"" + text + "\"; it must be ";
  if (name == "--src" || name == "--dst") {
    const bool known = read_ports(text, view, name == "--src" ? rule.src : rule.dst);
    return known ? "" : said + "HOST, HOST:PORT or HOST:DEVICE:PORT of this fabric";
  }
  if (name == "--chance") {
    const auto chance = parse_probability(text);
    rule.chance_ppm = chance.value_or(0);
    return chance ? "" : said + "0 to 1 or 0% to 100%";
  }
  if (name == "--errno") {
    const auto number = errno_by_name(text);
    rule.code = number.value_or(0);
    return number ? "" : said + "ENOMEM, EAGAIN, EBUSY, EINVAL, EPERM, … or its number";
  }
  if (name == "--to") {
    const auto state = look_up(kStates, text);
    rule.to_state = state.value_or(0);
    return state ? "" : said + "INIT, RTR, RTS, SQD, ERR or RESET";
  }
  const auto number = parse_number(text);
  if (!number) {
    return said + "a number";
  }
  const auto bounded = [&](std::uint32_t& place, std::uint64_t most, std::uint32_t factor = 1) {
    place = static_cast<std::uint32_t>(*number) * factor;
    return *number >= 1 && *number <= most ? "" : said + "1 to " + std::to_string(most);
  };
  if (name == "--qpn") {
    return bounded(rule.dst_qpn, 0xFFFFFF);
  }
  if (name == "--src-qpn") {
    return bounded(rule.src_qpn, 0xFFFFFF);
  }
  if (name == "--delay") {
    return bounded(rule.delay_us, 60'000, 1000);
  }
  for (const auto& [option, place] :
       {std::pair{"--nth", &rule.nth}, std::pair{"--every", &rule.every},
        std::pair{"--count", &rule.count}, std::pair{"--seed", &rule.seed}}) {
    if (name == option) {
      *place = *number;
      return *number != 0 || name == "--seed" ? "" : said + "1 or more";
    }
  }
  return "unknown option " + std::string(name);
}

}  // namespace

std::string read_options(Words words, const FabricView& view, hca::FaultRule& rule) {
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      return "a value is missing after " + std::string(words[i]);
    }
    std::string mistake = read_option(words[i], words[i + 1], view, rule);
    if (!mistake.empty()) {
      return mistake;
    }
  }
  return {};
}

std::optional<std::uint32_t> status_by_name(std::string_view name) {
  return look_up(kStatuses, name);
}

std::optional<std::uint32_t> call_by_name(std::string_view name) {
  return look_up(kCalls, name);
}

std::optional<std::uint32_t> limit_by_name(std::string_view name) {
  return look_up(kLimits, name);
}

std::optional<std::uint32_t> errno_by_name(std::string_view name) {
  if (const auto known = look_up(kErrnos, name)) {
    return known;
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc{} && end == name.data() + name.size();
  return whole && number >= 1 && number < 4096 ? std::optional(number) : std::nullopt;
}

std::string rule_text(const hca::FaultRule& rule, const FabricView* view) {
  using hca::RuleKind;
  constexpr std::array<std::string_view, 11> kKinds{
      "none",     "ud drop",  "ud duplicate", "ud delay", "ud reorder", "ud corrupt",
      "rc stall", "rc break", "error",        "call",     "limit"};
  const auto kind = static_cast<std::size_t>(rule.kind);
  std::string text(kind < kKinds.size() ? kKinds[kind] : "unknown");
  const auto add = [&text](std::string_view option, const std::string& value) {
    text += " " + std::string(option) + " " + value;
  };
  if (rule.kind == RuleKind::Error) {
    text += " " + name_of(kStatuses, rule.code);
  } else if (rule.kind == RuleKind::Call) {
    text += " " + name_of(kCalls, rule.what);
    add("--errno", name_of(kErrnos, rule.code));
  } else if (rule.kind == RuleKind::Limit) {
    text += " " + name_of(kLimits, rule.what) + " " + std::to_string(rule.value);
  } else if (rule.kind == RuleKind::UdDelay) {
    add("--delay", std::to_string(rule.delay_us / 1000));
  }
  for (const auto& [option, ports] :
       {std::pair{"--src", &rule.src}, std::pair{"--dst", &rule.dst}}) {
    if (ports->count != 0) {
      add(option, ports_text(*ports, view));
    }
  }
  for (const auto& [option, value] : {std::pair<const char*, std::uint64_t>{"--qpn", rule.dst_qpn},
                                      {"--src-qpn", rule.src_qpn},
                                      {"--nth", rule.nth},
                                      {"--every", rule.every},
                                      {"--count", rule.count}}) {
    if (value != 0) {
      add(option, std::to_string(value));
    }
  }
  if (rule.to_state != hca::kAnyState) {
    add("--to", name_of(kStates, rule.to_state));
  }
  if (rule.chance_ppm != 1'000'000) {
    add("--chance", std::to_string(rule.chance_ppm / 1e6) + " --seed " + std::to_string(rule.seed));
  }
  return text;
}

}  // namespace softhca::cli
