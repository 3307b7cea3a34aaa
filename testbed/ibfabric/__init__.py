# SPDX-License-Identifier: BSD-3-Clause
"""The test fabric: ibsim, OpenSM and softhca over several hosts in namespaces."""
