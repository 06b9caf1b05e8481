// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The plugin's configuration keys: defaults, parsing, and the generated reference. It depends on
  * the core's `errors` and `plan`; for the reference also on the core's `view` and on `metrics`. A
  * caller may rely on a value that was read being valid: an invalid one throws an error that names
  * the key, the value and the allowed values.
  */
package object conf
