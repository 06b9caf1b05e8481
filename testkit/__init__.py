# SPDX-License-Identifier: Apache-2.0
"""What the tests, the demo and the benchmarks share.

Queries over files whose answers are known, driver processes, a cluster, and what goes wrong in
them. It is no part of the wheel; an editable install, as `make setup` makes one, finds it.
"""
