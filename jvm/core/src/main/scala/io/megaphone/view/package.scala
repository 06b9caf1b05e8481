// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The tables that a user can see: each with its columns, defined once, and the rows that the
  * runtime's state makes. It depends on `format`, `plan`, `protocol` and `runtime`, and is pure: no
  * Spark, no thread, no file. A caller may rely on a table's names, types and order of columns:
  * JSON, Arrow schemas and the reference page are all generated from them.
  */
package object view
