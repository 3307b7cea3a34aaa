// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "softhca/cli/command.hpp"
#include "softhca/fabric/counters.hpp"
#include "softhca/fabric/fabric_view.hpp"

namespace softhca::cli {
namespace {

struct Row {
  std::string host;
  std::string device;
  std::uint32_t number = 0;
  std::uint16_t lid = 0;
  PortIndex index = 0;
};

std::vector<Row> rows_of(const FabricView& view) {
  std::vector<Row> rows;
  for (const HcaInfo& hca : view.all_hcas()) {
    for (std::uint32_t i = 0; i < hca.ports.size(); ++i) {
      rows.push_back({hca.host, hca.name, i + 1, view.brief(hca.ports[i]).lid, hca.ports[i]});
    }
  }
  return rows;
}

Counter counter_at(std::size_t i) {
  return static_cast<Counter>(i);
}

std::string quoted_name(std::size_t i) {
  return '"' + std::string(counter_name(counter_at(i))) + '"';
}

void print_json(const std::vector<Row>& rows, const Counters& counters) {
  std::fputs("{\"total\": {", stdout);
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    std::printf("%s%s: %llu", i == 0 ? "" : ", ", quoted_name(i).c_str(),
                static_cast<unsigned long long>(counters.total(counter_at(i))));
  }
  std::fputs("}, \"ports\": [", stdout);
  bool first = true;
  for (const Row& row : rows) {
    std::fputs(first ? "{\"host\": " : ", {\"host\": ", stdout);
    first = false;
    print_json_string(row.host);
    std::fputs(", \"device\": ", stdout);
    print_json_string(row.device);
    std::printf(", \"port\": %u, \"lid\": %u", row.number, row.lid);
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      std::printf(", %s: %llu", quoted_name(i).c_str(),
                  static_cast<unsigned long long>(counters.value(row.index, counter_at(i))));
    }
    std::fputc('}', stdout);
  }
  std::fputs("]}\n", stdout);
}

void print_table(const std::vector<Row>& rows, const Counters& counters) {
  std::printf("%-24s %12s  %s\n", "COUNTER", "TOTAL", "BY PORT (HOST/DEVICE/PORT=VALUE)");
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    const Counter counter = counter_at(i);
    std::printf("%-24s %12llu ", counter_name(counter).data(),
                static_cast<unsigned long long>(counters.total(counter)));
    for (const Row& row : rows) {
      const std::uint64_t value = counters.value(row.index, counter);
      if (value != 0) {
        std::printf(" %s/%s/%u=%llu", row.host.c_str(), row.device.c_str(), row.number,
                    static_cast<unsigned long long>(value));
      }
    }
    std::fputc('\n', stdout);
  }
}

}  // namespace

int run_stats(const Invocation& call) {
  bool json = false;
  bool reset = false;
  for (const char* arg : call.args) {
    if (std::string_view(arg) == "--json") {
      json = true;
    } else if (std::string_view(arg) == "--reset") {
      reset = true;
    } else {
      std::fprintf(stderr, "softhca: stats knows --json and --reset, not \"%s\"\n", arg);
      return 2;
    }
  }
  const auto view = FabricView::attach(call.dir.c_str());
  if (view == nullptr) {
    report_no_fabric(call.dir);
    return 1;
  }
  const auto counters = Counters::attach(call.dir.c_str());
  if (counters == nullptr) {
    std::fprintf(stderr, "softhca: cannot map %s/%s: %s\n", call.dir.c_str(), kCountersFile,
                 std::strerror(errno));
    return 1;
  }
  if (json) {
    print_json(rows_of(*view), *counters);
  } else if (!reset) {
    print_table(rows_of(*view), *counters);
  }
  if (reset) {
    counters->reset();
  }
  return 0;
}

}  // namespace softhca::cli
