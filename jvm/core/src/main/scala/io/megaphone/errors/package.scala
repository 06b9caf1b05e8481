// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** Everything that can go wrong, by name: one class a kind of error, with a stable condition and
  * one sentence for the user. It depends on nothing. A caller may rely on the sentence to say what
  * was wrong, what is allowed and what to do.
  */
package object errors
