/**
 * Runs one program after the other, each of which has to end by itself: to load the package and a client library again for each takes
 * far longer than the programs. A program is the path of a file, sent over IPC. When nothing is left to do, `END` follows what it printed.
 */
import { fileURLToPath, pathToFileURL } from 'node:url';

/** After the output of a program, on both streams. */
export const END = '\0end of the program\n';

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  let isRunning = false;
  // While a program runs, the channel does not keep this process waiting.
  process.on('message', (file) => {
    isRunning = true;
    process.channel.unref();
    import(pathToFileURL(file).href).catch((error) => {
      // As Node does with the main module.
      queueMicrotask(() => {
        throw error;
      });
    });
  });
  process.on('beforeExit', () => {
    if (!isRunning) return;
    isRunning = false;
    process.channel.ref();
    process.stdout.write(END);
    process.stderr.write(END);
  });
}
