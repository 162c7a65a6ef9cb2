import type { Socket } from 'node:net';

/** How an answer gets back to a client of the DNS server. */
export interface DnsReply {
  readonly protocol: 'udp' | 'tcp';
  /** Distinguishes one client's repeated query from another client's query. */
  readonly client: string;
  send(message: Buffer): void;
}

/** Reads length-prefixed queries from a TCP connection, and frames the answers in the same way. */
export function readFramed(socket: Socket, handle: (message: Buffer, reply: DnsReply) => void): void {
  const client = `tcp ${socket.remoteAddress}:${socket.remotePort}`;
  let pending: Buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    // Each message is preceded by its length (RFC 1035 4.2.2); a chunk may hold a part of a message, or several messages.
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
      const end = 2 + pending.readUInt16BE(0);
      const message = pending.subarray(2, end);
      pending = pending.subarray(end);
      handle(message, {
        protocol: 'tcp',
        client,
        send: (answer) => {
          const length = Buffer.alloc(2);
          length.writeUInt16BE(answer.length, 0);
          if (socket.writable) socket.write(Buffer.concat([length, answer]));
        },
      });
    }
  });
}
