// A map on a canvas: land, areas, links, nodes, moving things, and what travels between them. No tiles, no network.
//
// things = { nodes: [{id, lon, lat, color, away, text}], links: [{from, to, off, color}], areas: [{id, rings, color, text, inferred}],
//            movers: [{id, lon, lat, color, text}], clients: [the same], fences: [{id, rings, color, name, text}],
//            messages: [the same, for a moment], paths: [{points, color, thin}], crosses: [[lon, lat]] };
// rings and points are lists of [lon, lat]. Any of them may be missing.
// Nodes that are `dim` are in the background; paths are drawn with arrows where they are not thin, crosses say where something ended.
// travel([{from: [lon, lat], to: [lon, lat], color, stopped}]) draws ways once. Emits "pick" with {kind, id}.

const BUTTONS_PX = 44; // of the width, that things are not put behind
const TRAVEL_MS = 900, TRAVELS_MAX = 400, GLIDE_MS = 1900, ZOOM_MIN = 1, ZOOM_MAX = 4e6, METRES_PER_DEGREE = 111195, BAR_PX = 110, CLIENT_NAMES_MAX = 40, TITLES_MAX = 20;
const MOVING = ["movers", "clients"], SHAPES = ["messages", "fences", "areas"];
const mercator = (lat) => { const r = Math.max(-85, Math.min(85, lat)) * Math.PI / 180; return Math.log(Math.tan(Math.PI / 4 + r / 2)) * 180 / Math.PI; };
const unmercator = (y) => (2 * Math.atan(Math.exp(y * Math.PI / 180)) - Math.PI / 2) * 180 / Math.PI;

export default {
  template: `<div class="hanse-map" style="position:relative;width:100%;height:100%;min-height:20rem">
    <canvas ref="canvas" tabindex="0" role="img" :aria-label="label" style="width:100%;height:100%;display:block;touch-action:none;border-radius:8px"></canvas>
    <div ref="tip" role="tooltip" style="position:absolute;pointer-events:none;display:none;padding:.2rem .5rem;border-radius:4px;background:#000c;color:#fff;font-size:.8rem;max-width:20rem;white-space:pre-line"></div>
    <div style="position:absolute;right:.5rem;top:.5rem;display:flex;flex-direction:column;gap:.25rem">
      <button v-for="b in buttons" :key="b.name" :aria-label="b.name" :title="b.name" @click="b.does" style="width:2.2rem;height:2.2rem;border-radius:6px;border:1px solid #8888;background:var(--shore);color:var(--ink);font-size:1.1rem">{{ b.sign }}</button>
    </div></div>`,
  props: { things: Object, land: String, label: String },
  data() {
    return { buttons: [
      { name: "Closer", sign: "+", does: () => this.zoom(1.6) }, { name: "Further away", sign: "−", does: () => this.zoom(1 / 1.6) },
      { name: "Everything", sign: "⤢", does: () => this.fit() }, { name: "The globe", sign: "◯", does: () => this.globe() } ] };
  },
  async mounted() {
    this.view = { x: 0, y: 0, scale: 2 };
    this.ways = []; this.rings = []; this.moved = new Map(); this.isFitted = false;
    this.context = this.$refs.canvas.getContext("2d");
    this.base = document.createElement("canvas");
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.$el);
    this.listen();
    this.resize();
    const still = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.isStill = still.matches;
    still.addEventListener("change", (e) => { this.isStill = e.matches; });
    const frame = () => { this.draw(); this.request = requestAnimationFrame(frame); };
    frame();
    const land = await (await fetch(this.land)).json();
    for (const feature of land.features)
      for (const ring of feature.geometry.coordinates) {
        const points = ring.map(([lon, lat]) => [lon, mercator(lat)]);
        const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
        this.rings.push({ points, box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] });
      }
    this.isDirty = true;
  },
  unmounted() { cancelAnimationFrame(this.request); this.observer.disconnect(); },
  watch: { things: { deep: true, handler() { this.isDirty = true; this.follow(); } } },
  methods: {
    resize() {
      const { clientWidth: w, clientHeight: h } = this.$refs.canvas, ratio = window.devicePixelRatio || 1;
      this.size = { w, h, ratio };
      for (const c of [this.$refs.canvas, this.base]) { c.width = w * ratio; c.height = h * ratio; }
      this.isDirty = true;
      if (!this.isFitted) this.fit();
    },
    all(kind) { return this.things?.[kind] || []; },
    at(lon, lat) { const { x, y, scale } = this.view; return [(lon - x) * scale + this.size.w / 2, (y - mercator(lat)) * scale + this.size.h / 2]; },
    fit() {
      const all = ["nodes", ...MOVING].flatMap((kind) => this.all(kind)).map((t) => [t.lon, mercator(t.lat)]);
      for (const kind of ["fences", "areas"]) for (const f of this.all(kind)) for (const ring of f.rings) for (const [lon, lat] of ring) all.push([lon, mercator(lat)]);
      if (!all.length || !this.size?.w) return;
      const xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
      const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
      const room = this.size.w - BUTTONS_PX, scale = 0.86 * Math.min(room / Math.max(x1 - x0, 0.004), this.size.h / Math.max(y1 - y0, 0.004));
      const fitting = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, scale));
      this.view = { x: (x0 + x1) / 2 + BUTTONS_PX / 2 / fitting, y: (y0 + y1) / 2, scale: fitting };
      this.isFitted = true; this.isDirty = true;
    },
    globe() { this.view = { x: 0, y: 20, scale: Math.max(ZOOM_MIN, this.size.w / 370) }; this.isDirty = true; },
    zoom(by, px = this.size.w / 2, py = this.size.h / 2) {
      const v = this.view, scale = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, v.scale * by));
      const dx = px - this.size.w / 2, dy = py - this.size.h / 2;
      this.view = { x: v.x + dx / v.scale - dx / scale, y: v.y - dy / v.scale + dy / scale, scale };
      this.isDirty = true;
    },
    pan(dx, dy) { this.view.x -= dx / this.view.scale; this.view.y += dy / this.view.scale; this.isDirty = true; },
    listen() {
      const c = this.$refs.canvas, down = new Map();
      c.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY); }, { passive: false });
      c.addEventListener("pointerdown", (e) => { down.set(e.pointerId, [e.offsetX, e.offsetY]); this.dragged = 0; c.setPointerCapture(e.pointerId); });
      c.addEventListener("pointermove", (e) => {
        const from = down.get(e.pointerId);
        if (!from) return this.hint(e.offsetX, e.offsetY);
        const dx = e.offsetX - from[0], dy = e.offsetY - from[1];
        if (down.size === 2) {
          const other = [...down.entries()].find(([id]) => id !== e.pointerId)[1];
          const before = Math.hypot(from[0] - other[0], from[1] - other[1]), after = Math.hypot(e.offsetX - other[0], e.offsetY - other[1]);
          this.zoom(after / Math.max(1, before), (e.offsetX + other[0]) / 2, (e.offsetY + other[1]) / 2);
        } else this.pan(dx, dy);
        this.dragged += Math.abs(dx) + Math.abs(dy);
        down.set(e.pointerId, [e.offsetX, e.offsetY]);
      });
      const up = (e) => { down.delete(e.pointerId); };
      c.addEventListener("pointerup", (e) => { up(e); if (this.dragged < 5) { const t = this.near(e.offsetX, e.offsetY); if (t) this.$emit("pick", { kind: t.kind, id: t.id }); } });
      c.addEventListener("pointercancel", up);
      c.addEventListener("pointerleave", () => { this.$refs.tip.style.display = "none"; });
      c.addEventListener("keydown", (e) => {
        const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
        if (step) this.pan(...step); else if (e.key === "+" || e.key === "=") this.zoom(1.6); else if (e.key === "-") this.zoom(1 / 1.6);
        else if (e.key === "0") this.fit(); else if (e.key.toLowerCase() === "g") this.globe(); else return;
        e.preventDefault();
      });
    },
    near(px, py) {
      let best = null, least = 14;
      for (const kind of ["nodes", ...MOVING]) for (const t of this.all(kind)) {
        const [x, y] = this.where(kind, t), d = Math.hypot(x - px, y - py);
        if (d < least) { least = d; best = { kind, ...t }; }
      }
      return best;
    },
    within(px, py) { // the smallest that is drawn there: those come last
      const { x, y, scale } = this.view, lon = x + (px - this.size.w / 2) / scale, lat = unmercator(y - (py - this.size.h / 2) / scale);
      const crosses = ([ax, ay], [bx, by]) => (ay > lat) !== (by > lat) && lon < ax + (bx - ax) * (lat - ay) / (by - ay);
      for (const kind of SHAPES) {
        const found = this.all(kind).findLast(({ rings }) => rings.reduce((n, ring) => n + ring.filter((p, i) => i && crosses(ring[i - 1], p)).length, 0) % 2);
        if (found) return found;
      }
      return null;
    },
    hint(px, py) {
      const t = this.near(px, py) || this.within(px, py), tip = this.$refs.tip;
      if (!t) { tip.style.display = "none"; return; }
      tip.textContent = t.text || t.id; tip.style.display = "block";
      tip.style.left = `${Math.min(px + 12, this.size.w - 160)}px`; tip.style.top = `${py + 12}px`;
    },
    follow() { // what moves glides from where it was
      const now = performance.now(), moved = new Map();
      for (const kind of MOVING) for (const t of this.all(kind)) {
        const key = `${kind} ${t.id}`, known = this.moved.get(key), to = [t.lon, t.lat];
        const stays = known && known.to[0] === t.lon && known.to[1] === t.lat;
        moved.set(key, stays ? known : { from: known ? this.now(known, now) : to, to, at: now });
      }
      this.moved = moved;
      if (!this.isFitted) this.fit();
    },
    now(m, time) { const part = this.isStill ? 1 : Math.min(1, (time - m.at) / GLIDE_MS); return [m.from[0] + (m.to[0] - m.from[0]) * part, m.from[1] + (m.to[1] - m.from[1]) * part]; },
    where(kind, t, time = performance.now()) { const m = this.moved.get(`${kind} ${t.id}`); return this.at(...(m ? this.now(m, time) : [t.lon, t.lat])); },
    travel(ways) {
      const now = performance.now();
      ways.forEach((way, i) => this.ways.push({ ...way, at: now + i * Math.min(60, 900 / ways.length) }));
      if (this.ways.length > TRAVELS_MAX) this.ways.splice(0, this.ways.length - TRAVELS_MAX);
      this.travelled = (this.travelled || 0) + ways.length;
    },
    outline(g, rings) { g.beginPath(); for (const ring of rings) { ring.forEach(([lon, lat], i) => { const [x, y] = this.at(lon, lat); i ? g.lineTo(x, y) : g.moveTo(x, y); }); g.closePath(); } },
    ground(style) {
      const g = this.base.getContext("2d"), { w, h, ratio } = this.size, v = this.view;
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.fillStyle = style.sea; g.fillRect(0, 0, w, h);
      const box = [v.x - w / 2 / v.scale, v.y - h / 2 / v.scale, v.x + w / 2 / v.scale, v.y + h / 2 / v.scale];
      g.fillStyle = style.shore; g.strokeStyle = style.line; g.lineWidth = 0.7;
      g.beginPath();
      for (const { points, box: b } of this.rings) {
        if (b[0] > box[2] || b[2] < box[0] || b[1] > box[3] || b[3] < box[1]) continue;
        points.forEach(([x, y], i) => { const px = (x - v.x) * v.scale + w / 2, py = (v.y - y) * v.scale + h / 2; i ? g.lineTo(px, py) : g.moveTo(px, py); });
        g.closePath();
      }
      g.fill("evenodd"); g.stroke();
      for (const kind of ["areas", "fences"]) for (const a of this.all(kind)) {
        const [alpha, dash, width] = kind === "fences" ? [0.07, [7, 4], 1.6] : a.inferred ? [0.05, [1.5, 4], 1.3] : [0.17, [], 1.6];
        this.outline(g, a.rings);
        g.globalAlpha = alpha; g.fillStyle = a.color; g.fill("evenodd");
        g.globalAlpha = 0.85; g.strokeStyle = a.color; g.setLineDash(dash); g.lineWidth = width; g.stroke(); g.setLineDash([]); g.globalAlpha = 1;
      }
      const places = Object.fromEntries(this.all("nodes").map((n) => [n.id, n]));
      for (const link of this.all("links")) {
        const a = places[link.from], b = places[link.to];
        if (!a || !b) continue;
        g.beginPath(); g.moveTo(...this.at(a.lon, a.lat)); g.lineTo(...this.at(b.lon, b.lat));
        g.strokeStyle = link.color || style.line; g.lineWidth = link.off ? 1 : 2; g.setLineDash(link.off ? [3, 5] : []); g.stroke(); g.setLineDash([]);
      }
      this.isDirty = false;
    },
    title(g, { rings, name }, style) { // along the upper edge, or the lower one, if there is room
      const corners = rings.flat().map(([lon, lat]) => this.at(lon, lat)), xs = corners.map((c) => c[0]), ys = corners.map((c) => c[1]);
      const wide = g.measureText(name || "").width, left = Math.min(...xs), x = left + 8 + wide / 2;
      if (name && Math.max(...xs) - left > wide + 16) this.writeFree(g, name, [[x, Math.min(...ys) + 15], [x, Math.max(...ys) - 6]], style);
    },
    name(g, text, x, y, first, style) { // below or above, or beside it; not at all where others are named already
      const beside = g.measureText(text).width / 2 + 14;
      this.writeFree(g, text, [[x, y + first], [x, y + 9 - first], [x + beside, y + 4], [x - beside, y + 4]], style);
    },
    writeFree(g, text, places, style) { // at the first place where nothing is written yet
      const wide = g.measureText(text).width;
      for (const [x, y] of places) {
        const box = [x - wide / 2, y - 11, x + wide / 2, y + 3];
        if (box[0] < 0 || box[1] < 0 || box[2] > this.size.w || box[3] > this.size.h) continue;
        if (this.written.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
        this.written.push(box);
        return this.write(g, text, x, y, style.sea, style.ink);
      }
    },
    write(g, text, x, y, behind, color) { g.lineWidth = 3; g.strokeStyle = behind; g.strokeText(text, x, y); g.fillStyle = color; g.fillText(text, x, y); },
    bar(g, style) { // how long a piece of the map is
      const { w, h } = this.size, metre = this.view.scale / METRES_PER_DEGREE / Math.cos(unmercator(this.view.y) * Math.PI / 180);
      const most = BAR_PX / metre, power = 10 ** Math.floor(Math.log10(most)), length = power * [5, 2, 1].find((n) => n * power <= most);
      if (w < 200 || length > 5e6) return;
      const x = 14, y = h - 14, wide = length * metre;
      g.beginPath(); g.moveTo(x, y - 5); g.lineTo(x, y); g.lineTo(x + wide, y); g.lineTo(x + wide, y - 5);
      g.strokeStyle = style.ink; g.lineWidth = 1.5; g.stroke();
      this.write(g, length < 1000 ? `${length} m` : `${length / 1000} km`, x + wide / 2, y - 6, style.sea, style.ink);
    },
    diamond(g, x, y, size) { g.beginPath(); g.moveTo(x, y - size); g.lineTo(x + size, y); g.lineTo(x, y + size); g.lineTo(x - size, y); g.closePath(); },
    path(g, { points, color, thin }) {
      const places = points.map(([lon, lat]) => this.at(lon, lat));
      g.beginPath(); places.forEach(([x, y], i) => { i ? g.lineTo(x, y) : g.moveTo(x, y); });
      g.strokeStyle = g.fillStyle = color; g.lineWidth = thin ? 2 : 5; g.lineJoin = "round"; g.globalAlpha = thin ? 0.7 : 0.9; g.stroke();
      for (let i = 1; !thin && i < places.length; i++) {
        const [[ax, ay], [bx, by]] = [places[i - 1], places[i]], turn = Math.atan2(by - ay, bx - ax), x = (ax + bx) / 2, y = (ay + by) / 2;
        if (Math.hypot(bx - ax, by - ay) < 30) continue;
        const corner = (far, aside) => [x + far * Math.cos(turn + aside), y + far * Math.sin(turn + aside)];
        g.beginPath(); g.moveTo(...corner(11, 0)); g.lineTo(...corner(11, 2.4)); g.lineTo(...corner(11, -2.4)); g.fill();
      }
      g.globalAlpha = 1;
    },
    cross(g, x, y, size) {
      for (const [color, width] of [["#fff", 8], ["#d22", 4]]) {
        g.beginPath(); g.moveTo(x - size, y - size); g.lineTo(x + size, y + size); g.moveTo(x + size, y - size); g.lineTo(x - size, y + size);
        g.strokeStyle = color; g.lineWidth = width; g.stroke();
      }
    },
    draw() {
      if (!this.size?.w) return;
      const css = getComputedStyle(this.$el), style = Object.fromEntries(["sea", "shore", "line", "ink"].map((n) => [n, css.getPropertyValue(`--${n}`).trim()]));
      if (style.sea !== this.sea) { this.sea = style.sea; this.isDirty = true; }
      if (this.isDirty) this.ground(style);
      const g = this.context, { ratio } = this.size, now = performance.now();
      g.setTransform(1, 0, 0, 1, 0, 0); g.drawImage(this.base, 0, 0); g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.font = "12px system-ui, sans-serif"; g.textAlign = "center";
      for (const m of this.all("messages")) {
        this.outline(g, m.rings);
        g.globalAlpha = this.isStill ? 0.3 : 0.3 + 0.12 * Math.sin(now / 180); g.fillStyle = m.color; g.fill("evenodd");
        g.globalAlpha = 1; g.strokeStyle = m.color; g.lineWidth = 2; g.stroke();
      }
      for (const t of this.all("movers")) {
        const [x, y] = this.where("movers", t, now);
        g.beginPath(); g.arc(x, y, 4, 0, 7); g.fillStyle = t.color; g.fill(); g.strokeStyle = style.sea; g.lineWidth = 1; g.stroke();
      }
      for (const path of this.all("paths")) this.path(g, path);
      this.written = [];
      for (const n of this.all("nodes")) {
        const [x, y] = this.at(n.lon, n.lat);
        g.globalAlpha = n.away ? 0.45 : n.dim ? 0.4 : 1;
        g.beginPath(); g.arc(x, y, 9, 0, 7); g.fillStyle = n.color; g.fill(); g.strokeStyle = style.ink; g.lineWidth = 2; g.stroke();
        if (n.away) { g.beginPath(); g.moveTo(x - 6, y - 6); g.lineTo(x + 6, y + 6); g.stroke(); }
        this.written.push([x - 9, y - 9, x + 9, y + 9]);
        g.globalAlpha = 1;
      }
      for (const n of this.all("nodes")) {
        g.globalAlpha = n.away || n.dim ? 0.6 : 1;
        this.name(g, n.id, ...this.at(n.lon, n.lat), 23, style);
      }
      g.globalAlpha = 1;
      const isNamed = this.all("clients").length <= CLIENT_NAMES_MAX;
      for (const t of this.all("clients")) {
        const [x, y] = this.where("clients", t, now);
        this.diamond(g, x, y, 8); g.fillStyle = t.color; g.fill(); g.strokeStyle = "#fff"; g.lineWidth = 2; g.stroke();
        this.diamond(g, x, y, 9.5); g.strokeStyle = style.ink; g.lineWidth = 1; g.stroke();
        if (isNamed) this.name(g, t.id, x, y, -14, style);
      }
      for (const kind of ["messages", "fences"]) for (const f of this.all(kind).slice(0, TITLES_MAX)) this.title(g, f, style);
      this.bar(g, style);
      for (const [lon, lat] of this.all("crosses")) this.cross(g, ...this.at(lon, lat), 10);
      this.ways = this.ways.filter((way) => now - way.at < TRAVEL_MS);
      for (const way of this.ways) {
        const done = (now - way.at) / TRAVEL_MS;
        if (done < 0) continue;
        const [ax, ay] = this.at(...way.from), [bx, by] = this.at(...way.to), part = this.isStill ? 1 : way.stopped ? Math.min(done, 0.55) : done;
        const x = ax + (bx - ax) * part, y = ay + (by - ay) * part, tail = this.isStill ? 0 : Math.max(0, part - 0.25);
        g.beginPath(); g.moveTo(ax + (bx - ax) * tail, ay + (by - ay) * tail); g.lineTo(x, y);
        g.strokeStyle = way.color; g.lineWidth = 3; g.globalAlpha = 1 - done * 0.6; g.stroke();
        g.beginPath(); g.arc(x, y, 5, 0, 7); g.fillStyle = way.color; g.fill(); g.strokeStyle = "#fff"; g.lineWidth = 1.5; g.stroke();
        if (way.stopped && done > 0.5) { g.beginPath(); g.moveTo(x - 6, y - 6); g.lineTo(x + 6, y + 6); g.moveTo(x + 6, y - 6); g.lineTo(x - 6, y + 6); g.strokeStyle = "#d22"; g.stroke(); }
        g.globalAlpha = 1;
      }
    },
  },
};
