import { expect, it } from 'vitest';
import { terminalText } from '../../../src/cli/terminal-text.js';

it('keeps lines, tabs and letters, and no control sequences', () => {
  expect(terminalText('a\tb – ü\n\u{1f600}')).toBe('a\tb – ü\n\u{1f600}');
  expect(terminalText('\u001b]0;title\u0007\r\u009b2J\u202egnp')).toBe('\ufffd]0;title\ufffd\ufffd\ufffd2J\ufffdgnp');
});
