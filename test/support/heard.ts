/**
 * Resolves when this process has read what the kernel told it of others' ends. Under load the kernel itself may tell it a
 * few milliseconds late; nothing else shows that it has.
 */
export async function heard(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
