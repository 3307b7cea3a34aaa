// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "cm/kernel_rank.hpp"

namespace wireup::cm {

/// Two ranks that listen, on one kernel of the test's own, in virtual time. When a test is over
/// nothing may be left but the listeners.
class KernelPair : public testing::TestWithParam<Medium> {
 protected:
  KernelPair() {
    a_.emplace(GetParam(), 1);
    b_.emplace(GetParam(), 2);
    a_->listen();
    b_->listen();
  }
  ~KernelPair() override {
    run_dry();
    EXPECT_EQ(a_->carrier().connections(), 0U);
    EXPECT_EQ(b_->carrier().connections(), 0U);
    EXPECT_EQ(kernel_.ids(), 2U) << "the listeners";
    a_->close();
    b_->close();
    EXPECT_EQ(kernel_.ids(), 0U);
    EXPECT_EQ(kernel_.channels(), 0U);
    EXPECT_EQ(kernel_.unacknowledged(), 0U);
  }
  /// Until nothing happens without time passing.
  void settle() {
    for (int i = 0; i < 1000; ++i) {
      const bool any_a = a_->turn(now_);
      if (!b_->turn(now_) && !any_a) {
        return;
      }
    }
    FAIL() << "it never ends";
  }
  /// Until no deadline is left.
  void run_dry() {
    for (int i = 0; i < 100000; ++i) {
      settle();
      const auto a = a_->next_deadline();
      const auto b = b_->next_deadline();
      if (!a.has_value() && !b.has_value()) {
        return;
      }
      now_ = std::max(now_, a.has_value() && b.has_value() ? std::min(*a, *b) : a.value_or(*b));
    }
    FAIL() << "deadlines never end";
  }
  Handle connect_a(std::uint32_t qpn = 0x100) {
    const Handle handle = a().connect(b(), qpn, now_);
    settle();
    return handle;
  }
  void disconnect(KernelRank& rank, Handle handle) {
    ASSERT_TRUE(rank.engine().disconnect(handle, {}, now_).has_value());
  }
  KernelRank& a() { return *a_; }
  KernelRank& b() { return *b_; }
  [[nodiscard]] bool is_ib() const { return GetParam() == Medium::Infiniband; }

  test::FakeRdmaCm kernel_;
  Instant now_{std::chrono::seconds(100)};

 private:
  std::optional<KernelRank> a_;
  std::optional<KernelRank> b_;
};

}  // namespace wireup::cm
