/**
 * Removes from a text everything that a terminal would obey: control characters other than line feeds and tabs, and characters that reverse
 * the direction of text. What the CLI prints comes from API servers, DNS and admin pages.
 */
export function terminalText(text: string): string {
  return text.replace(COMMANDS, '\ufffd');
}

const COMMANDS = /(?![\n\t])\p{Cc}|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
