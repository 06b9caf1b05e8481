// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** What one executor holds of the state: a worker's bins at one name, the lease on it, and the
  * registry of all of them. It depends on `errors`, `log`, `format` and `plan`. A caller may rely
  * on versions: they live on the holding, never on a bin, and memory is never ahead of files.
  */
package object state
