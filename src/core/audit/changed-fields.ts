// Finds the fields that differ between two versions of an object. It returns paths and never values,
// so that audit records contain no secrets.

/** Metadata that every write changes, or that only names the writer. */
const uninteresting = new Set([
  'metadata.managedFields',
  'metadata.resourceVersion',
  'metadata.generation',
  'metadata.creationTimestamp',
  'metadata.uid',
]);

const deepest = 6;
const mostPaths = 64;

/**
 * Paths such as `spec.rules` or `metadata.labels.app`, in the order of `after` and then of what is
 * gone from `before`. A list is named as a whole. Costs time linear in the smaller of what differs.
 */
export function changedFields(before: unknown, after: unknown): string[] {
  const paths: string[] = [];
  compare(before, after, '', 0, paths);
  return paths;
}

function compare(
  before: unknown,
  after: unknown,
  path: string,
  depth: number,
  paths: string[],
): void {
  if (paths.length >= mostPaths || Object.is(before, after) || uninteresting.has(path)) return;
  if (depth < deepest && (isRecord(before) || isRecord(after))) {
    const left = isRecord(before) ? before : {};
    const right = isRecord(after) ? after : {};
    // One side is a value of another type or absent: then the field as a whole came or went,
    // unless it is the root or a section of it, whose fields are worth naming.
    if (depth >= 2 && !(isRecord(before) && isRecord(after))) {
      paths.push(path);
      return;
    }
    const keys = new Set([...Object.keys(right), ...Object.keys(left)]);
    for (const key of keys) {
      compare(left[key], right[key], path === '' ? key : `${path}.${key}`, depth + 1, paths);
    }
    return;
  }
  if (!equal(before, after)) paths.push(path);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function equal(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, i) => equal(item, right[i]));
  }
  if (!isRecord(left) || !isRecord(right)) return false;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
  );
}
