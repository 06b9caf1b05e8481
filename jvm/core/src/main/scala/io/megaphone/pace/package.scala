// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** How fast copies may be made beside the batches. The driver derives a rate from what batches take
  * while copies are made; executors keep to it. It depends on nothing, and decides nothing that an
  * answer depends on.
  */
package object pace
