// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** What faces say and take as JSON: rows of any table, and plans made by hand. It depends on the
  * core's `view` and on `driver`. A caller may rely on a row having a field for each column of its
  * table, and no other.
  */
package object json
