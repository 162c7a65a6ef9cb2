import { expect, it } from 'vitest';
import { withoutSecrets } from '../../../src/admin/secrets.js';

it.each([
  ['https://user:hunter2@api answered', 'https://***@api answered'],
  ['amqp://u:p/ass@h:5672 is closed', 'amqp://***@h:5672 is closed'],
  ['amqp://u:p ass@h is closed', 'amqp://***@h is closed'],
  ['amqp://u@corp:p@ss@h is closed', 'amqp://***@h is closed'],
  ['amqp://u:one@a, amqp://u:two@b', 'amqp://***@a, amqp://***@b'],
  ['password="my dear secret" was refused', 'password="***" was refused'],
  ["{ password: 'it is' }", "{ password: '***' }"],
  ['token=s3cret&x=1', 'token=***&x=1'],
  ['http://10.0.0.1:8080/v1 is late', 'http://10.0.0.1:8080/v1 is late'],
])('%s: %s', (text, shown) => {
  expect(withoutSecrets(text)).toBe(shown);
});

it('takes a time that grows only with the length of the text', () => {
  const texts = [
    '//a:'.repeat(20_000),
    `//${'a:@'.repeat(20_000)}`,
    `password="${'x'.repeat(60_000)}`,
    '//a:b@'.repeat(10_000),
  ];
  // Without a bound, one of these would take minutes.
  for (const text of texts) expect(typeof withoutSecrets(text)).toBe('string');
});
