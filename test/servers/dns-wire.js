/**
 * Encodes and decodes DNS messages (RFC 1035 section 4; SRV: RFC 2782; AAAA: RFC 3596; OPT: RFC 6891). Only what a name server for tests
 * needs: it decodes queries and encodes answers, with name compression like real servers.
 */
const dnsTypes = { A: 1, NS: 2, CNAME: 5, SOA: 6, PTR: 12, TXT: 16, AAAA: 28, SRV: 33, OPT: 41 };

const dnsRcodes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 };

const CLASS_IN = 1;
const MAX_POINTER = 0x3fff;

/** Decodes a query; undefined for any message that is not one well-formed question. */
export function decodeQuery(message) {
  if (message.length < 12) return undefined;
  const flags = message.readUInt16BE(2);
  const isResponse = (flags & 0x8000) !== 0;
  if (isResponse || message.readUInt16BE(4) !== 1) return undefined;
  try {
    const name = readName(message, 12);
    const type = message.readUInt16BE(name.next);
    return {
      id: message.readUInt16BE(0),
      recursionDesired: (flags & 0x0100) !== 0,
      question: { name: name.text, type: typeName(type) },
      udpSize: readUdpSize(message, name.next + 4),
    };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Encodes an answer. `truncated` sends only the header with the TC bit, which means "ask again over TCP". */
export function encodeAnswer(query, answer, truncated = false) {
  const { answers, authority = [], additional = [] } = truncated ? { answers: [] } : answer;
  const writer = new Writer();
  writer.u16(query.id);
  const authoritative = 0x0400;
  const recursionAvailable = 0x0080;
  writer.u16(
    0x8000 |
      authoritative |
      recursionAvailable |
      (truncated ? 0x0200 : 0) |
      (query.recursionDesired ? 0x0100 : 0) |
      dnsRcodes[answer.rcode],
  );
  writer.u16(1);
  writer.u16(answers.length);
  writer.u16(authority.length);
  writer.u16(additional.length);
  writer.name(query.question.name, true);
  writer.u16(typeNumber(query.question.type));
  writer.u16(CLASS_IN);
  for (const record of [...answers, ...authority, ...additional]) writer.record(record);
  return writer.bytes();
}

class Writer {
  #buffer = Buffer.alloc(4_096);
  #length = 0;
  /** The offset at which each name tail was written, for compression pointers. */
  #offsets = new Map();

  u8(value) {
    this.#reserve(1);
    this.#length = this.#buffer.writeUInt8(value, this.#length);
  }

  u16(value) {
    this.#reserve(2);
    this.#length = this.#buffer.writeUInt16BE(value, this.#length);
  }

  u32(value) {
    this.#reserve(4);
    this.#length = this.#buffer.writeUInt32BE(value, this.#length);
  }

  name(name, compress) {
    const labels = splitName(name);
    for (let index = 0; index < labels.length; index++) {
      const tail = labels.slice(index).join('.').toLowerCase();
      const offset = this.#offsets.get(tail);
      if (offset !== undefined && compress) {
        this.u16(0xc000 | offset);
        return;
      }
      if (offset === undefined && this.#length <= MAX_POINTER) this.#offsets.set(tail, this.#length);
      const label = Buffer.from(labels[index], 'latin1');
      this.u8(label.length);
      this.#reserve(label.length);
      this.#length += label.copy(this.#buffer, this.#length);
    }
    this.u8(0);
  }

  record(record) {
    this.name(record.name, true);
    this.u16(dnsTypes[record.type]);
    this.u16(CLASS_IN);
    this.u32(record.ttl);
    const lengthAt = this.#length;
    this.u16(0);
    this.#data(record);
    this.#buffer.writeUInt16BE(this.#length - lengthAt - 2, lengthAt);
  }

  bytes() {
    return this.#buffer.subarray(0, this.#length);
  }

  #data(record) {
    switch (record.type) {
      case 'A':
        for (const part of record.address.split('.')) this.u8(Number(part));
        return;
      case 'AAAA':
        for (const group of ipv6Groups(record.address)) this.u16(group);
        return;
      case 'CNAME':
      case 'PTR':
      case 'NS':
        this.name(record.target, true);
        return;
      case 'SRV':
        this.u16(record.priority);
        this.u16(record.weight);
        this.u16(record.port);
        this.name(record.target, false); // RFC 2782: the target of an SRV record is not compressed.
        return;
      case 'SOA':
        this.name(record.primary, true);
        this.name(`hostmaster.${record.primary}`, true);
        for (const value of [1, 7_200, 1_800, 86_400, record.minimumTtl]) this.u32(value);
    }
  }

  #reserve(bytes) {
    if (this.#length + bytes <= this.#buffer.length) return;
    const bigger = Buffer.alloc((this.#length + bytes) * 2);
    this.#buffer.copy(bigger, 0, 0, this.#length);
    this.#buffer = bigger;
  }
}

function readName(message, start) {
  const labels = [];
  let at = start;
  for (;;) {
    const length = message.readUInt8(at);
    if (length === 0) return { text: labels.join('.'), next: at + 1 };
    if (length > 63) throw new RangeError('queries carry no compressed names');
    if (at + 1 + length > message.length) throw new RangeError('the label ends beyond the message');
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
}

function readUdpSize(message, additionalAt) {
  const plain = 512;
  const hasOpt =
    message.readUInt16BE(10) > 0 &&
    message.length >= additionalAt + 11 &&
    message.readUInt8(additionalAt) === 0 &&
    message.readUInt16BE(additionalAt + 1) === dnsTypes.OPT;
  return hasOpt ? Math.max(plain, Math.min(4_096, message.readUInt16BE(additionalAt + 3))) : plain;
}

function splitName(name) {
  const text = name.endsWith('.') ? name.slice(0, -1) : name;
  return text === '' ? [] : text.split('.');
}

function ipv6Groups(address) {
  const [head = '', tail] = address.split('::');
  const groups = (part) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)));
  const before = groups(head);
  if (tail === undefined) return before;
  const after = groups(tail);
  return [...before, ...new Array(8 - before.length - after.length).fill(0), ...after];
}

function typeName(type) {
  const entry = Object.entries(dnsTypes).find(([, value]) => value === type);
  return entry === undefined ? String(type) : entry[0];
}

function typeNumber(type) {
  return Object.hasOwn(dnsTypes, type) ? dnsTypes[type] : Number(type);
}
