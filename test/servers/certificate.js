import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';

/**
 * Creates an ECDSA P-256 certificate valid from 2020 to 2099, for tests that need TLS without files or an external tool. The encoding is
 * X.509 v3 (RFC 5280) in DER (ITU-T X.690).
 */
export function createCertificate(options = {}) {
  const { commonName = 'evenkeel test', hosts = ['localhost', '127.0.0.1'], issuer } = options;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' });

  const algorithm = sequence(oid('1.2.840.10045.4.3.2')); // ecdsa-with-SHA256
  const serial = randomBytes(8);
  serial[0] = (serial.readUInt8(0) & 0x7f) | 0x40; // the serial number is positive, with no leading zero
  const names = hosts.map((host) =>
    isIP(host) === 0 ? tagged(0x82, Buffer.from(host, 'ascii')) : tagged(0x87, ipBytes(host)),
  );
  const extensions = sequence(
    extension(
      '2.5.29.19',
      issuer === undefined,
      sequence(...(issuer === undefined ? [tagged(0x01, Buffer.of(0xff))] : [])),
    ),
    extension('2.5.29.17', false, sequence(...names)),
  );
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.of(2))), // version 3
    tagged(0x02, serial),
    algorithm,
    nameOf(issuer?.commonName ?? commonName),
    sequence(tagged(0x17, Buffer.from('200101000000Z')), tagged(0x18, Buffer.from('20991231235959Z'))),
    nameOf(commonName),
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, extensions),
  );
  const signer = issuer?.key ?? privateKey;
  const signature = sign('sha256', body, signer);
  const der = sequence(body, algorithm, tagged(0x03, Buffer.concat([Buffer.of(0), signature])));
  return { commonName, key, cert: pem(der) };
}

function tagged(tag, content) {
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  if (length < 0x100) return Buffer.concat([Buffer.of(tag, 0x81, length), content]);
  return Buffer.concat([Buffer.of(tag, 0x82, length >> 8, length & 0xff), content]);
}

function sequence(...parts) {
  return tagged(0x30, Buffer.concat(parts));
}

function oid(text) {
  const [first, second, ...rest] = text.split('.').map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const groups = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return tagged(0x06, Buffer.from(bytes));
}

function nameOf(commonName) {
  return sequence(tagged(0x31, sequence(oid('2.5.4.3'), tagged(0x0c, Buffer.from(commonName)))));
}

function extension(id, critical, value) {
  const flag = critical ? [tagged(0x01, Buffer.of(0xff))] : [];
  return sequence(oid(id), ...flag, tagged(0x04, value));
}

function ipBytes(address) {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number));
  const [head = '', tail = ''] = address.split('::');
  const groups = (text) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)));
  const left = groups(head);
  const right = groups(tail);
  const all = [...left, ...new Array(8 - left.length - right.length).fill(0), ...right];
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 0xff]));
}

function pem(der) {
  const lines = der.toString('base64').match(/.{1,64}/g);
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
