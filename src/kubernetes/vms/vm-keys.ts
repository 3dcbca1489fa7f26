// The keys of the part for machines: VM Services, and machines whose status may be out of date.

export interface VmKey {
  readonly type: 'service' | 'machine';
  /** NAMESPACE/NAME. */
  readonly name: string;
}

/** No name in Kubernetes has it. */
const separator = '|';

export const vmServiceKey = (name: string): string => `service${separator}${name}`;
export const machineKey = (name: string): string => `machine${separator}${name}`;

/** Total: every other text is the key of a machine that does not exist. */
export function parseVmKey(key: string): VmKey {
  const at = key.indexOf(separator);
  const type = key.slice(0, Math.max(at, 0)) === 'service' ? 'service' : 'machine';
  return { type, name: key.slice(at + 1) };
}
