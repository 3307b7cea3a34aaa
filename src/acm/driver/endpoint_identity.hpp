// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "acm/driver/neighbour_table.hpp"
#include "acm/identity/matching.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// Who said which port has a name or IP address.
enum class IdentitySource : std::uint8_t {
  /// The port itself, by ACM, or the question named it.
  Itself = 0,
  HostsFile = 1,
  NeighbourTable = 2,
  NodeDescription = 3,
  ServiceRecord = 4,
};
/// "itself", "hosts file", "neighbour table", "node description", "service record".
[[nodiscard]] std::string_view identity_source_name(IdentitySource source) noexcept;

/// Which port has a name or an IP address when the port runs nothing that could say so: the
/// kernel's neighbour table (IP addresses), the descriptions of the subnet's nodes (names), the
/// services that ports have registered (both), in this order.
///
/// The tables of the subnet come through whoever owns this: it takes poll_table(), asks the SA for
/// the whole table, and gives it back. A table serves all questions for a while, so that the SA is
/// asked for it once however many names are looked for. Not thread-safe; never blocks.
class EndpointIdentity {
 public:
  struct Options {
    /// The partition in which services count.
    PKey pkey{0xFFFF};
    /// nullopt: without.
    std::optional<NeighbourTable> neighbours;
    /// The owner can ask for the subnet's tables.
    bool has_tables = false;
  };
  explicit EndpointIdentity(Options options) noexcept;

  struct Identity {
    Gid gid;
    IdentitySource source = IdentitySource::Itself;
    friend bool operator==(const Identity&, const Identity&) noexcept = default;
  };
  /// One Answer for the address follows, at once or when the tables are here; several calls for one
  /// address give one.
  void ask(const mad::AcmAddress& address, Instant now);

  struct Answer {
    mad::AcmAddress address;
    /// Errc::NotFound: nobody knows it. Errc::InvalidArgument: it is several ports, which the text
    /// names. Others: the table that could have told could not be had.
    Result<Identity> identity;
  };
  [[nodiscard]] std::optional<Answer> poll_answer();

  enum class Table : std::uint8_t { Nodes, Services };
  /// A table that is wanted now: one handle_*() follows.
  [[nodiscard]] std::optional<Table> poll_table();
  void handle_nodes(const Result<std::vector<DescribedPort>>& ports, Instant now);
  void handle_services(const Result<std::vector<RegisteredService>>& services, Instant now);
  /// The subnet has changed: tables that are here do not count any more.
  void forget();

 private:
  template <typename Row>
  struct Kept {
    std::vector<Row> rows;
    /// When they came; nothing: never, or forgotten.
    std::optional<Instant> at;
    bool is_asked = false;
    /// Why the last one could not be had.
    std::optional<Error> error;
    /// Names and addresses that wait for it.
    std::vector<mad::AcmAddress> waiting;
  };

  template <typename Row>
  [[nodiscard]] bool wait_for(Kept<Row>& kept, Table table, const mad::AcmAddress& address,
                              Instant now);
  template <typename Row>
  [[nodiscard]] static std::vector<mad::AcmAddress> take_table(Kept<Row>& kept,
                                                               const Result<std::vector<Row>>& rows,
                                                               Instant now);
  [[nodiscard]] bool is_waiting(const mad::AcmAddress& address) const noexcept;
  void look_at_nodes(const mad::AcmAddress& address, Instant now);
  void look_at_services(const mad::AcmAddress& address, Instant now);
  void answer(const mad::AcmAddress& address, const Result<std::optional<Gid>>& gid,
              IdentitySource source);
  void answer_unknown(const mad::AcmAddress& address);

  Options options_;
  Kept<DescribedPort> nodes_;
  Kept<RegisteredService> services_;
  std::deque<Table> tables_;
  std::deque<Answer> answers_;
};

}  // namespace wireup::acm
