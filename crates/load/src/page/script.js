'use strict';
// Saves the drawing beside a button as PNG, in the colours that it is shown in.
const SCALE = 2, TITLE = 34, LINE = 22;
function png(button) {
  const panel = button.closest('.panel'), figure = button.closest('figure');
  const drawing = [...panel.querySelectorAll('svg')].find(svg => svg.getBoundingClientRect().width > 0);
  const style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue(name).trim();
  const legend = [...figure.querySelectorAll('.legend li')].map(item =>
    ({ mark: item.firstChild.textContent, fill: getComputedStyle(item.firstChild).backgroundColor, text: item.lastChild.textContent }));
  const { width, height } = drawing.viewBox.baseVal;
  const source = new XMLSerializer().serializeToString(drawing).replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => colour(name));
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement('canvas');
    canvas.width = width * SCALE;
    canvas.height = (height + TITLE + LINE * legend.length) * SCALE;
    const context = canvas.getContext('2d');
    context.scale(SCALE, SCALE);
    context.fillStyle = colour('--page');
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = colour('--text');
    context.font = '600 16px system-ui, sans-serif';
    context.fillText(panel.dataset.title, 12, 24, width - 24);
    context.font = '13px system-ui, sans-serif';
    legend.forEach(({ mark, fill, text }, index) => {
      const y = TITLE + LINE * index + 14;
      if (!mark) {
        context.fillStyle = fill;
        context.fillRect(12, y - 10, 10, 10);
      }
      context.fillStyle = colour('--text');
      context.fillText(mark, 12, y);
      context.fillText(text, 30, y, width - 42);
    });
    context.drawImage(image, 0, TITLE + LINE * legend.length, width, height);
    canvas.toBlob(blob => {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = `${figure.id}-${panel.dataset.result}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
  };
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(source);
}
document.addEventListener('click', event => { if (event.target.matches('button.png')) png(event.target); });
