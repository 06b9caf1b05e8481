# SPDX-License-Identifier: Apache-2.0
"""A long run: many queries in one application, random plans, and things that go wrong.

`make soak` starts it. It ends with a report: no row may be wrong, no query may hang, nothing may
grow. No part of the wheel.

- `main`: what is asked for, and what is left behind
- `run`: the rounds
- `acts`: what the dice choose from
- `plans`: random plans, and what becomes of them
- `fleet`: the queries
- `samples`, `flat`: what is measured, and whether it grows
- `report`: what is told at the end
"""
